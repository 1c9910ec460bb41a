package cert

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"
)

// Action is the next step for the certificates of a Deployment.
type Action string

// Actions in the order of a rotation.
const (
	// Keep changes nothing.
	Keep Action = "Keep"
	// Replace issues a pair that is used immediately, because no usable pair exists.
	Replace Action = "Replace"
	// Stage issues a pair that callers must trust before Pods use it.
	Stage Action = "Stage"
	// Promote makes the staged pair the current pair.
	Promote Action = "Promote"
	// Retire removes CAs that no Pod uses anymore.
	Retire Action = "Retire"
)

// Reason explains an Action.
type Reason string

// Reasons in the order in which Decide checks them.
const (
	// Missing means that the Secret does not exist.
	Missing Reason = "Missing"
	// Tampered means that the parts of a pair do not match.
	Tampered Reason = "Tampered"
	// NotIssuedHere means that the CA does not have the form of the CAs that Remit issues.
	NotIssuedHere Reason = "NotIssuedHere"
	// CAChanged means that the CA is not among the CAs that Remit recorded when it issued them.
	CAChanged Reason = "CAChanged"
	// HostNames means that the certificate is not valid for the hosts through which the Deployment is called.
	HostNames Reason = "HostNames"
	// Expired means that the certificate is not valid now.
	Expired Reason = "Expired"
	// NearExpiry means that two thirds of the certificate's lifetime have passed.
	NearExpiry Reason = "NearExpiry"
	// Rolled means that no Pod uses the previous CAs anymore.
	Rolled Reason = "Rolled"
)

const (
	// DefaultLife is the lifetime of a serving certificate (OLM v0 contract: 730 days).
	DefaultLife = 730 * 24 * time.Hour
	// DefaultBackdate is the default of Policy.Backdate. It exceeds the clock skew within a cluster.
	DefaultBackdate = time.Hour
	// DefaultSettle is the default of Policy.Settle. It gives API servers time to observe a new caBundle.
	DefaultSettle = 10 * time.Second
	// maxPrevious is the maximum number of CAs that are trusted in addition to the current and the next one.
	maxPrevious = 4
)

// Observed is the input of Decide.
type Observed struct {
	Now time.Time
	// Hosts are the DNS names through which the Deployment is called.
	Hosts []string
	// Data is the data of the Secret, or nil if the Secret does not exist.
	Data map[string][]byte
	// Recorded contains the hashes of the CAs that Remit has issued. They are recorded outside the Secret.
	Recorded []string
	// Bundles contains the caBundle of every webhook, conversion and API that is served by the Deployment.
	Bundles [][]byte
	// TrustedFor is how long every bundle has been observed to contain the staged pair's CA.
	TrustedFor time.Duration
	// Running is true if every Pod uses the current pair.
	Running bool
	// Unstored is a pair that was issued but could not be stored, or nil. The next decision to issue a pair uses it
	// instead of a new one, so that objects that already record or trust it need not be written again.
	Unstored *Pair
}

// Policy configures how certificates are issued.
type Policy struct {
	// Life is the lifetime of a certificate; zero means DefaultLife.
	Life time.Duration
	// Backdate is how far in the past a certificate's validity begins, so that it is valid immediately despite clock
	// skew; zero means DefaultBackdate.
	Backdate time.Duration
	// Settle is how long the next CA is trusted before a Pod uses it; zero means DefaultSettle.
	Settle time.Duration
}

// Decision is the next step and the state to which it applies.
type Decision struct {
	Action Action
	Reason Reason
	// Message explains the Reason. It contains no data from the Secret.
	Message string
	// Set is the set before the action, without pairs and CAs that must no longer be used.
	Set Set
	// Times describes the pair in use; zero if there is none.
	Times
	// After is the delay until the next decision if no event triggers one earlier; zero means that none is scheduled.
	After time.Duration
}

// Times describes when a pair was issued, is rotated and expires.
type Times struct {
	Issued time.Time
	// RotateAt is when the next pair is staged. It leaves a third of the lifetime to fix problems.
	RotateAt time.Time
	Expires  time.Time
}

// Times returns the times of a pair, or zero values if the pair is invalid.
func (p Policy) Times(pair Pair) Times {
	leaf, err := parseOne(pair.Certificate)
	if err != nil {
		return Times{}
	}
	issued := leaf.NotBefore.Add(p.backdate())
	return Times{Issued: issued, RotateAt: issued.Add(leaf.NotAfter.Sub(issued) / 3 * 2), Expires: leaf.NotAfter}
}

// Decide returns the next step for a Deployment's set. It has no side effects; [Policy.Carry] executes the step.
func (p Policy) Decide(o Observed) Decision {
	if o.Data == nil {
		return p.replace(o, Set{}, Missing, "the Secret does not exist")
	}
	s := parse(o.Data)
	reason, message := s.Current.check(o.Hosts)
	if reason == "" && !o.issued(s.Current.CA) {
		reason, message = CAChanged, "the CA differs from the CA that Remit issued"
	}
	t := p.Times(s.Current)
	if reason == "" && (!o.Now.Before(t.Expires) || o.Now.Before(t.Issued.Add(-p.backdate()))) {
		reason, message = Expired, "the serving certificate is not currently valid"
	}
	if reason != "" {
		return p.replace(o, s, reason, message)
	}
	s.Previous = slices.DeleteFunc(s.Previous, func(ca []byte) bool { return !o.usable(ca) })
	d := Decision{Action: Keep, Set: s, Times: t}
	if s.Next != nil {
		return p.rotating(o, d)
	}
	switch {
	case len(s.Previous) > 0 && o.Running:
		d.Action, d.Reason = Retire, Rolled
	case !o.Now.Before(d.RotateAt):
		d.Action, d.Reason = Stage, NearExpiry
	default:
		d.After = d.RotateAt.Sub(o.Now)
	}
	return d
}

// rotating returns the next step while a pair is staged: promote the pair when every caller has trusted it for the
// settle time, or stage a new one if it is no longer usable.
func (p Policy) rotating(o Observed, d Decision) Decision {
	d.Reason = NearExpiry
	reason, message := d.Set.Next.check(o.Hosts)
	if reason == "" && !o.issued(d.Set.Next.CA) {
		reason, message = CAChanged, "the staged CA differs from the CA that Remit issued"
	}
	if reason == "" && !o.Now.Before(p.Times(*d.Set.Next).RotateAt) {
		reason, message = NearExpiry, "the staged certificate is near expiry"
	}
	if reason != "" {
		d.Action, d.Reason, d.Message, d.Set.Next = Stage, reason, message, nil
		return d
	}
	untrusting := slices.ContainsFunc(o.Bundles, func(b []byte) bool { return !Trusts(b, d.Set.Next.CA) })
	switch {
	case untrusting:
		d.Message = "not all callers trust the next CA yet"
	case o.TrustedFor < p.settle():
		d.After = p.settle() - o.TrustedFor
	default:
		d.Action = Promote
	}
	return d
}

// replace returns the decision to issue a new pair. CAs that Pods may still use remain trusted until the Pods are
// rolled.
func (p Policy) replace(o Observed, s Set, reason Reason, message string) Decision {
	again, _ := p.unstored(o)
	kept := append([][]byte{s.Current.CA}, s.Previous...)
	for _, b := range o.Bundles {
		for _, c := range parseAll(b) {
			kept = append(kept, encode(blockCertificate, c.Raw))
		}
	}
	var out Set
	for _, ca := range kept {
		if o.usable(ca) && !bytes.Equal(ca, again.CA) && !out.isPrevious(ca) && len(out.Previous) < maxPrevious {
			out.Previous = append(out.Previous, ca)
		}
	}
	return Decision{Action: Replace, Reason: reason, Message: message, Set: out}
}

func (s Set) isPrevious(ca []byte) bool {
	return slices.ContainsFunc(s.Previous, func(have []byte) bool { return Hash(have) == Hash(ca) })
}

func (o Observed) issued(ca []byte) bool {
	hash := Hash(ca)
	return hash != "" && slices.Contains(o.Recorded, hash)
}

// usable reports whether a CA was issued by Remit and has not expired.
func (o Observed) usable(ca []byte) bool {
	parsed, err := parseOne(ca)
	return err == nil && o.issued(ca) && o.Now.Before(parsed.NotAfter)
}

// Carry executes a decision and returns the set to be stored. It generates keys but writes nothing. The caller then
// does the following, in this order: it records the set's Hashes, adds its Trust to all callers of the Deployment,
// stores the set, and sets its Hash on the Pod template to roll the Pods. Calls keep working if this sequence is
// interrupted at any point.
func (p Policy) Carry(d Decision, o Observed) (Set, error) {
	s := d.Set
	switch d.Action {
	case Replace, Stage:
		pair, ok := p.unstored(o)
		if !ok {
			var err error
			if pair, err = p.Issue(o.Now, o.Hosts); err != nil {
				return Set{}, err
			}
		}
		if d.Action == Replace {
			s.Current = pair
		} else {
			s.Next = &pair
		}
	case Promote:
		if s.Next == nil {
			return Set{}, errors.New("no certificate is staged")
		}
		s.Previous = append([][]byte{s.Current.CA}, s.Previous...)
		s.Current, s.Next = *s.Next, nil
	case Retire:
		s.Previous = nil
	}
	return s, nil
}

// unstored returns o.Unstored, or false if it is nil or must not be used any longer.
func (p Policy) unstored(o Observed) (Pair, bool) {
	if o.Unstored == nil {
		return Pair{}, false
	}
	reason, _ := o.Unstored.check(o.Hosts)
	if reason != "" || !o.Now.Before(p.Times(*o.Unstored).RotateAt) {
		return Pair{}, false
	}
	return *o.Unstored, true
}

func (p Policy) life() time.Duration { return cmp.Or(p.Life, DefaultLife) }

func (p Policy) backdate() time.Duration { return cmp.Or(p.Backdate, DefaultBackdate) }

// settle returns the configured or default Settle. The default is shorter for certificates with a short lifetime,
// which only tests use.
func (p Policy) settle() time.Duration { return cmp.Or(p.Settle, min(DefaultSettle, p.life()/10)) }
