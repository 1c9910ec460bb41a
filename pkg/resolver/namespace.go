package resolver

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Subject is a Subscription with where it stands.
type Subject struct {
	Subscription *operatorsv1alpha1.Subscription
	// Installed is the version that is there; nil where none is.
	Installed *operatorsv1alpha1.ClusterServiceVersion
	// Keep says that it may not be replaced now.
	Keep bool
	// Planned is what a plan that is being carried out makes of the Subscription; nil where there is none.
	Planned *Pin
	// Optional is a Subscription that was made for what others need, with nothing installed yet: it is served
	// only while one of them still needs it.
	Optional bool
}

// Namespace is what is decided about as one.
type Namespace struct {
	Subjects []Subject
	// Others are the ClusterServiceVersions that no Subscription has brought.
	Others []*operatorsv1alpha1.ClusterServiceVersion
}

// Choice is a version that is to be installed.
type Choice struct {
	Catalog types.NamespacedName
	Package string
	Channel string
	Bundle  string
	// Subscription that asks for it; nil where it is only needed by others and has none yet.
	Subscription *operatorsv1alpha1.Subscription
	// Replaces names the installed version whose place it takes.
	Replaces string
	// NeededBy are the Subscriptions on whose account it is installed, sorted by name: its own included.
	NeededBy []*operatorsv1alpha1.Subscription
}

// Answer is what was decided for a namespace.
type Answer struct {
	// Sets are the changes, those together that only make sense together.
	Sets [][]Choice
	// Problems say, by the UID of a Subscription, why it gets nothing.
	Problems map[types.UID]*Problem
	// Heads are the newest versions of the Subscriptions' channels, by UID; absent where that cannot be told.
	Heads map[types.UID]string
	// Held says, by UID, why what a Subscription has installed stays although its channel has something else: no
	// problem, but what people ask. It is left out where the version may not be replaced now (Subject.Keep).
	Held map[types.UID]*Problem
}

// Resolve decides for a namespace. It is deterministic and writes nothing. The error is a *LimitError where that would
// take more than the limits, or the context's; the Answer then has the Heads only.
func (in Input) Resolve(ctx context.Context, limits Limits, ns Namespace) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	d := &decision{
		in: in, answer: newAnswer(), meter: newMeter(ctx, in, limits),
		subjects: slices.Clone(ns.Subjects),
	}
	slices.SortFunc(d.subjects, func(a, b Subject) int { return strings.Compare(a.Subscription.Name, b.Subscription.Name) })
	d.openCatalogs()
	d.readOthers(ns.Others)
	d.findRoots()
	d.solve()
	err := d.meter.finish()
	if err == nil {
		d.answer.cut()
		return d.answer, nil
	}
	var exceeded *LimitError
	if errors.As(err, &exceeded) {
		exceeded.Most = d.meter.most(d.last)
	}
	stopped := newAnswer()
	stopped.Heads = d.answer.Heads
	return stopped, err
}

func newAnswer() Answer {
	return Answer{Problems: map[types.UID]*Problem{}, Heads: map[types.UID]string{}, Held: map[types.UID]*Problem{}}
}

// maxMessage bounds what is kept of a message, in bytes: there is one for each Subscription, in the words of others.
const maxMessage = 8 * 1024

// cut shortens what is too long to be read.
func (a *Answer) cut() {
	for _, problems := range []map[types.UID]*Problem{a.Problems, a.Held} {
		for _, p := range problems {
			if len(p.Message) > maxMessage {
				p.Message = strings.ToValidUTF8(p.Message[:maxMessage], "") + " … (cut)"
			}
		}
	}
}

// decision is one resolution under way.
type decision struct {
	in       Input
	answer   Answer
	subjects []Subject
	// others are the versions that no Subscription has brought, read once for all rounds of solve.
	others []*operator

	meter *meter
	// last is the problem that was solved last; nil where there was none.
	last *problem

	// indexes are the catalogs that can be used, in the order of preference of the namespace; sick are those that
	// it could use if they had content.
	indexes []*index
	sick    []types.NamespacedName
	// roots are the Subscriptions that are to be served.
	roots []*root
}

// root is a Subscription with the versions that would serve it, the best first.
type root struct {
	Subject
	candidates []*operator
	// loose says that what is there breaks the rules already: it stays, and they are not held against it.
	loose bool
	// must is the only candidate that will do; nil where each will.
	must *operator
}

func (r *root) name() string { return r.Subscription.Name }

// openCatalogs finds the catalogs that the namespace may use: those of higher priority first, its own before
// the global ones, then by name (contract 1.3).
func (d *decision) openCatalogs() {
	type ranked struct {
		*index
		priority int
	}
	d.in.Indexes.drop(d.in.Catalogs)
	var all []ranked
	for _, key := range d.in.Visible {
		if !d.in.sees(key) {
			continue
		}
		snapshot, ok := d.in.Catalogs.Get(key)
		if !ok {
			d.sick = append(d.sick, key)
			continue
		}
		x := d.in.Indexes.get(d.meter, snapshot)
		if x == nil {
			return
		}
		all = append(all, ranked{x, snapshot.Priority})
	}
	foreign := func(key types.NamespacedName) int {
		if key.Namespace == d.in.Namespace {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(foreign(a.key), foreign(b.key)), strings.Compare(a.key.Name, b.key.Name))
	})
	for _, r := range all {
		d.indexes = append(d.indexes, r.index)
	}
	slices.SortFunc(d.sick, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}

func (d *decision) indexOf(key types.NamespacedName) *index {
	for _, x := range d.indexes {
		if x.key == key {
			return x
		}
	}
	return nil
}

// findRoots finds, for each Subscription, the versions that would satisfy it. It stops when the meter is spent.
func (d *decision) findRoots() {
	for _, s := range d.subjects {
		if d.meter.Spend(1) != nil || d.meter.look() != nil {
			return
		}
		found, problem := d.lookUp(s)
		if problem == nil && found.chain.err == nil {
			d.answer.Heads[s.Subscription.UID] = found.chain.entries[0].Name
		}
		candidates, problem := d.candidatesOf(s, found, problem)
		if problem != nil {
			d.answer.Problems[s.Subscription.UID] = problem
		}
		if candidates != nil {
			d.roots = append(d.roots, &root{Subject: s, candidates: candidates})
		}
	}
}

// candidatesOf returns the versions that would satisfy a Subscription, the best first; none if the Subscription adds
// nothing to the resolution. The problem is to be reported on the Subscription, also where there are candidates.
func (d *decision) candidatesOf(s Subject, found *found, problem *Problem) ([]*operator, *Problem) {
	switch {
	case s.Planned != nil:
		return []*operator{d.planned(s)}, nil
	case s.Installed != nil:
		candidates := d.successors(s, found, problem)
		if problem == nil && found.chain.err == nil {
			d.holdInChannel(s, found, candidates)
		}
		if problem != nil && problem.Reason != ConstraintsNotSatisfiable {
			problem = nil
		}
		return candidates, problem
	case problem != nil || s.Optional:
		return nil, problem
	}
	if d.meter.Spend(costOfCandidate*len(found.chain.fresh)) != nil {
		return nil, nil
	}
	return fresh(s.Subscription, found)
}

// planned is the version that a plan in flight brings: as its catalog has it, else all that is known of it.
func (d *decision) planned(s Subject) *operator {
	p := s.Planned
	x := d.indexOf(p.CatalogKey())
	if x == nil {
		x = &index{key: p.CatalogKey()}
	}
	f := x.bundles[p.Package][p.Bundle]
	if f == nil {
		f = &facts{name: p.Bundle, pkg: p.Package}
	}
	o := x.newOperator(p.Channel, f)
	o.settled = true
	return o
}

// successors are what may take the place of the installed version, and, last, that version itself.
func (d *decision) successors(s Subject, found *found, problem *Problem) []*operator {
	there := d.in.existing(d.factsOf(s))
	if s.Keep || problem != nil || found.chain.err != nil {
		return []*operator{there}
	}
	bundles := found.index.bundles[s.Subscription.Spec.Package]
	versionOf := func(name string) (v *semver.Version) {
		if f := bundles[name]; f != nil {
			v = f.version
		}
		return v
	}
	if d.meter.Spend(found.chain.cost) != nil {
		return []*operator{there}
	}
	var out []*operator
	for _, name := range found.chain.successors(s.Installed.Name, there.version, versionOf) {
		if f := bundles[name]; f != nil && !f.deprecated {
			o := found.index.newOperator(found.channel, f)
			o.replaces = s.Installed.Name
			out = append(out, o)
		}
	}
	return append(out, there)
}

// factsOf are those of what a Subscription has installed: as it was installed, whatever its catalog says by now. Of one
// that does not note that, its catalog knows best, if it still has that version.
func (d *decision) factsOf(s Subject) *facts {
	spec := s.Subscription.Spec
	var published *facts
	if x := d.indexOf(types.NamespacedName{Namespace: spec.CatalogSourceNamespace, Name: spec.CatalogSource}); x != nil {
		published = x.bundles[spec.Package][s.Installed.Name]
	}
	if published != nil && published.note() == s.Installed.Annotations[names.AnnotationProperties] {
		return published // the same, and read already
	}
	_ = d.meter.Spend(costOfReading(s.Installed)) // the error stays
	if f := notedFacts(s.Installed, spec.Package); f != nil {
		return f
	}
	if published != nil {
		return published
	}
	return installedFacts(s.Installed, spec.Package)
}
