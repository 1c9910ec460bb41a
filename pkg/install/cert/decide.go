package cert

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"
)

// Action is the next step for a Deployment's certificate set.
type Action string

// Actions, in the order of a rotation.
const (
	// Keep changes nothing.
	Keep Action = "Keep"
	// Replace issues a pair that is used immediately, because no usable pair exists.
	Replace Action = "Replace"
	// Stage issues a pair that is first trusted and used later.
	Stage Action = "Stage"
	// Promote makes the staged pair the one in use.
	Promote Action = "Promote"
	// Retire drops CAs that no Pod uses any longer.
	Retire Action = "Retire"
)

// Reason is why a set is not kept.
type Reason string

// Reasons, in the order in which they are checked.
const (
	// Missing: there is no Secret.
	Missing Reason = "Missing"
	// Tampered: the parts of a pair do not match.
	Tampered Reason = "Tampered"
	// NotIssuedHere: the CA does not have the form that Remit issues.
	NotIssuedHere Reason = "NotIssuedHere"
	// CAChanged: the CA is not one that was recorded when it was issued.
	CAChanged Reason = "CAChanged"
	// HostNames: the certificate is not valid for the hosts that are called.
	HostNames Reason = "HostNames"
	// Expired: the certificate is not valid now.
	Expired Reason = "Expired"
	// NearExpiry: two thirds of the certificate's lifetime have passed.
	NearExpiry Reason = "NearExpiry"
	// Rolled: no Pod uses the previous CAs any longer.
	Rolled Reason = "Rolled"
)

const (
	// DefaultLife is the lifetime of a serving certificate (contract 1.12: 730 days).
	DefaultLife = 730 * 24 * time.Hour
	// DefaultBackdate exceeds the clock skew within a cluster.
	DefaultBackdate = time.Hour
	// DefaultSettle is the time that API servers get to observe a new caBundle.
	DefaultSettle = 10 * time.Second
	// maxPrevious bounds the CAs that are trusted in addition to the current and the next one.
	maxPrevious = 4
)

// Observed is the input of a decision.
type Observed struct {
	Now time.Time
	// Hosts by which the Deployment is called.
	Hosts []string
	// Data of the Secret; nil if it does not exist.
	Data map[string][]byte
	// Recorded are the hashes of the CAs that Remit issued, as recorded outside the Secret.
	Recorded []string
	// Bundles are the caBundles of all configurations that call the Deployment.
	Bundles [][]byte
	// TrustedFor is how long all Bundles have been observed to trust the staged pair.
	TrustedFor time.Duration
	// Running is true if every Pod uses the current pair.
	Running bool
	// Unstored is a pair that was issued but could not be stored, or nil. It is issued next, so that what already
	// records and trusts it need not be written again.
	Unstored *Pair
}

// Policy is how certificates are issued.
type Policy struct {
	// Life of a certificate; zero means DefaultLife.
	Life time.Duration
	// Backdate is how far in the past a certificate's validity begins, so that it is valid at once despite clock skew;
	// zero means DefaultBackdate.
	Backdate time.Duration
	// Settle is how long the next CA is trusted before a Pod uses it; zero means DefaultSettle.
	Settle time.Duration
}

// Decision is the next step.
type Decision struct {
	Action Action
	Reason Reason
	// Message explains the Reason. It quotes nothing from the Secret.
	Message string
	// Set is the set before the action, without entries that do not count.
	Set Set
	// Times are those of the pair in use; zero if there is none.
	Times
	// After is when to decide again without an event; zero means never.
	After time.Duration
}

// Times of a pair.
type Times struct {
	Issued time.Time
	// RotateAt is when the next pair is staged. It leaves a third of the lifetime for fixing problems.
	RotateAt time.Time
	Expires  time.Time
}

// Times returns zero values for an invalid pair.
func (p Policy) Times(pair Pair) Times {
	leaf, err := parseOne(pair.Certificate)
	if err != nil {
		return Times{}
	}
	issued := leaf.NotBefore.Add(p.backdate())
	return Times{Issued: issued, RotateAt: issued.Add(leaf.NotAfter.Sub(issued) / 3 * 2), Expires: leaf.NotAfter}
}

// Decide returns the next step for a Deployment's set. It is pure; [Policy.Carry] executes the step.
func (p Policy) Decide(o Observed) Decision {
	if o.Data == nil {
		return p.replace(o, Set{}, Missing, "there is no Secret")
	}
	s := parse(o.Data)
	reason, message := s.Current.check(o.Hosts)
	if reason == "" && !o.issued(s.Current.CA) {
		reason, message = CAChanged, "the CA is not the one that was issued"
	}
	t := p.Times(s.Current)
	if reason == "" && (!o.Now.Before(t.Expires) || o.Now.Before(t.Issued.Add(-p.backdate()))) {
		reason, message = Expired, "the serving certificate is not valid now"
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

// rotating waits until every caller of the Deployment trusts the staged pair.
func (p Policy) rotating(o Observed, d Decision) Decision {
	d.Reason = NearExpiry
	reason, message := d.Set.Next.check(o.Hosts)
	if reason == "" && !o.issued(d.Set.Next.CA) {
		reason, message = CAChanged, "the staged CA is not the one that was issued"
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

// replace keeps trust in the CAs that Pods may use until they are rolled.
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
		if o.usable(ca) && !bytes.Equal(ca, again.CA) && !out.previously(ca) && len(out.Previous) < maxPrevious {
			out.Previous = append(out.Previous, ca)
		}
	}
	return Decision{Action: Replace, Reason: reason, Message: message, Set: out}
}

func (s Set) previously(ca []byte) bool {
	return slices.ContainsFunc(s.Previous, func(have []byte) bool { return Hash(have) == Hash(ca) })
}

func (o Observed) issued(ca []byte) bool {
	hash := Hash(ca)
	return hash != "" && slices.Contains(o.Recorded, hash)
}

// usable reports whether a CA was issued here and has not expired.
func (o Observed) usable(ca []byte) bool {
	parsed, err := parseOne(ca)
	return err == nil && o.issued(ca) && o.Now.Before(parsed.NotAfter)
}

// Carry executes a decision and returns the set to be stored. It generates keys but writes nothing. The caller then,
// in this order, records the set's Hashes, adds its Trust to all callers of the Deployment, stores the set, and rolls
// the Pods by its Hash. An interruption at any point breaks nothing.
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
			return Set{}, errors.New("no pair is staged")
		}
		s.Previous = append([][]byte{s.Current.CA}, s.Previous...)
		s.Current, s.Next = *s.Next, nil
	case Retire:
		s.Previous = nil
	}
	return s, nil
}

// unstored returns the pair that could not be stored, unless a new one is due instead.
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

// settle is shorter for certificates with a short lifetime, which only tests use.
func (p Policy) settle() time.Duration { return cmp.Or(p.Settle, min(DefaultSettle, p.life()/10)) }
