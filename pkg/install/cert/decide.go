package cert

import (
	"bytes"
	"errors"
	"slices"
	"time"
)

// Action is what is to be done with a Deployment's set.
type Action string

// Actions, in the order of a rotation.
const (
	// Keep changes nothing.
	Keep Action = "Keep"
	// Replace issues a pair that is used at once: there is none that could be used meanwhile.
	Replace Action = "Replace"
	// Stage issues a pair that is trusted first and used later.
	Stage Action = "Stage"
	// Promote makes the staged pair the one in use.
	Promote Action = "Promote"
	// Retire forgets authorities by which nobody serves any more.
	Retire Action = "Retire"
)

// Reason says why a set is not kept as it is.
type Reason string

// Reasons, in the order in which they are looked for.
const (
	// Missing: there is no Secret.
	Missing Reason = "Missing"
	// Tampered: the parts of a pair do not fit each other.
	Tampered Reason = "Tampered"
	// NotIssuedHere: the authority is not of the form that Remit issues.
	NotIssuedHere Reason = "NotIssuedHere"
	// CAChanged: the authority is not one that was recorded when it was issued.
	CAChanged Reason = "CAChanged"
	// HostNames: the certificate is not for the hosts that are called.
	HostNames Reason = "HostNames"
	// Expired: the certificate is not valid at present.
	Expired Reason = "Expired"
	// NearExpiry: two thirds of the certificate's life are over.
	NearExpiry Reason = "NearExpiry"
	// Rolled: nobody serves by the previous authorities any more.
	Rolled Reason = "Rolled"
)

const (
	// DefaultLife is how long a serving certificate is valid (contract 1.12: 730 days).
	DefaultLife = 730 * 24 * time.Hour
	// DefaultBackdate is more than the clocks of a cluster differ by.
	DefaultBackdate = time.Hour
	// DefaultSettle is how long API servers get to notice what they are to trust.
	DefaultSettle = 10 * time.Second
	// maxPrevious bounds the authorities that are trusted besides the current one and the next.
	maxPrevious = 4
)

// Observed is all that a decision depends on.
type Observed struct {
	Now time.Time
	// Hosts by which the Deployment is called.
	Hosts []string
	// Data is the Secret's; nil where there is none.
	Data map[string][]byte
	// Recorded are the hashes of the authorities that Remit issued, as they were noted outside the Secret.
	Recorded []string
	// Bundles are the caBundles of all configurations by which the Deployment is called.
	Bundles [][]byte
	// TrustedFor is for how long all of Bundles have been seen to trust the staged pair.
	TrustedFor time.Duration
	// Running says that every Pod serves by the pair in use.
	Running bool
	// Unstored is a pair that was issued and could not be stored; nil where there is none. It is what is issued
	// next, so that what has recorded and trusted it already need not be written again.
	Unstored *Pair
}

// Policy is how certificates are issued.
type Policy struct {
	// Life of a certificate; zero means DefaultLife.
	Life time.Duration
	// Backdate is by how much certificates seem to be older than they are, so that they are valid at once where
	// clocks differ; zero means DefaultBackdate.
	Backdate time.Duration
	// Settle is how long the next authority is trusted before somebody serves by it; zero means DefaultSettle.
	Settle time.Duration
}

// Decision says what to do next.
type Decision struct {
	Action Action
	Reason Reason
	// Message tells people more than the Reason; it quotes nothing of the Secret.
	Message string
	// Set is as it is before the action, without what does not count.
	Set Set
	// Times are those of the pair in use; zero where there is none.
	Times
	// After is when to decide again though nothing has happened; zero means never.
	After time.Duration
}

// Times of a pair.
type Times struct {
	Issued time.Time
	// RotateAt is when the next pair is staged: a third of the life is left to those who may have to do
	// something about it.
	RotateAt time.Time
	Expires  time.Time
}

// Times are zero for what is no pair.
func (p Policy) Times(pair Pair) Times {
	leaf, err := parseOne(pair.Certificate)
	if err != nil {
		return Times{}
	}
	issued := leaf.NotBefore.Add(p.backdate())
	return Times{Issued: issued, RotateAt: issued.Add(leaf.NotAfter.Sub(issued) / 3 * 2), Expires: leaf.NotAfter}
}

// Decide says what to do with a Deployment's set. It is a pure function; [Policy.Carry] does it.
func (p Policy) Decide(o Observed) Decision {
	if o.Data == nil {
		return p.replace(o, Set{}, Missing, "there is no Secret")
	}
	s := parse(o.Data)
	reason, message := s.Current.check(o.Hosts)
	if reason == "" && !o.issued(s.Current.CA) {
		reason, message = CAChanged, "the authority is not the one that was issued"
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

// rotating waits until the staged pair is trusted wherever the Deployment is called.
func (p Policy) rotating(o Observed, d Decision) Decision {
	d.Reason = NearExpiry
	reason, message := d.Set.Next.check(o.Hosts)
	if reason == "" && !o.issued(d.Set.Next.CA) {
		reason, message = CAChanged, "the staged authority is not the one that was issued"
	}
	if reason == "" && !o.Now.Before(p.Times(*d.Set.Next).RotateAt) {
		reason, message = NearExpiry, "the staged certificate has grown old"
	}
	if reason != "" {
		d.Action, d.Reason, d.Message, d.Set.Next = Stage, reason, message, nil
		return d
	}
	untrusting := slices.ContainsFunc(o.Bundles, func(b []byte) bool { return !Trusts(b, d.Set.Next.CA) })
	switch {
	case untrusting:
		d.Message = "the next authority is not trusted everywhere yet"
	case o.TrustedFor < p.settle():
		d.After = p.settle() - o.TrustedFor
	default:
		d.Action = Promote
	}
	return d
}

// replace keeps the trust in authorities by which Pods may serve until they are rolled.
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
		if o.usable(ca) && !bytes.Equal(ca, again.CA) && !slices.Contains(out.previousHashes(), Hash(ca)) && len(out.Previous) < maxPrevious {
			out.Previous = append(out.Previous, ca)
		}
	}
	return Decision{Action: Replace, Reason: reason, Message: message, Set: out}
}

func (s Set) previousHashes() []string {
	out := make([]string, 0, len(s.Previous))
	for _, ca := range s.Previous {
		out = append(out, Hash(ca))
	}
	return out
}

func (o Observed) issued(ca []byte) bool {
	hash := Hash(ca)
	return hash != "" && slices.Contains(o.Recorded, hash)
}

// usable says of an authority that it was issued here and has not expired.
func (o Observed) usable(ca []byte) bool {
	parsed, err := parseOne(ca)
	return err == nil && o.issued(ca) && o.Now.Before(parsed.NotAfter)
}

// Carry does what a decision asks for, and returns the set to be stored. It makes keys and writes
// nothing. The caller then, in this order, records the set's Hashes, gives its Trust to all that call the
// Deployment, stores it, and rolls the Pods by its Hash: whoever is interrupted has broken nothing.
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

// unstored is the pair that could not be stored, unless a new one is due in its place.
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

func (p Policy) life() time.Duration {
	if p.Life == 0 {
		return DefaultLife
	}
	return p.Life
}

func (p Policy) backdate() time.Duration {
	if p.Backdate == 0 {
		return DefaultBackdate
	}
	return p.Backdate
}

// settle is shorter for certificates of a short life, which only tests have.
func (p Policy) settle() time.Duration {
	if p.Settle == 0 {
		return min(DefaultSettle, p.life()/10)
	}
	return p.Settle
}
