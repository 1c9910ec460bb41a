package resolver

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Subject is a Subscription and its current state.
type Subject struct {
	Subscription *operatorsv1alpha1.Subscription
	// Installed is the installed version, or nil.
	Installed *operatorsv1alpha1.ClusterServiceVersion
	// Keep means that the installed version must not be replaced now.
	Keep bool
	// Planned is the pin of a plan in progress for the Subscription, or nil.
	Planned *Pin
	// Optional marks a Subscription that was created for a dependency and has nothing installed yet: it is resolved
	// only while another Subscription needs it.
	Optional bool
}

// Namespace is the set of objects that is resolved as a unit.
type Namespace struct {
	Subjects []Subject
	// Others are the ClusterServiceVersions that do not belong to a Subscription.
	Others []*operatorsv1alpha1.ClusterServiceVersion
}

// Choice is a version to install.
type Choice struct {
	Catalog types.NamespacedName
	Package string
	Channel string
	Bundle  string
	// Subscription is the Subscription that requests the version; nil if it is only a dependency and has no
	// Subscription yet.
	Subscription *operatorsv1alpha1.Subscription
	// Replaces names the installed version that this one replaces.
	Replaces string
	// NeededBy lists the Subscriptions that require the version, including the one that requests it, sorted by name.
	NeededBy []*operatorsv1alpha1.Subscription
}

// Answer is the result of resolving a namespace.
type Answer struct {
	// Sets contains the changes, grouped so that changes that depend on each other are in the same set.
	Sets [][]Choice
	// Problems contains the reasons why Subscriptions cannot be resolved, keyed by Subscription UID.
	Problems map[types.UID]*Problem
	// Heads contains the newest version of each Subscription's channel, if it is known, keyed by Subscription UID.
	Heads map[types.UID]string
	// HeldBack explains why Subscriptions keep their installed versions although their channels have replacements, keyed
	// by Subscription UID. An entry is informational, and is not set while the version must not be replaced
	// (Subject.Keep).
	HeldBack map[types.UID]*Problem
}

// Resolve computes the answer for a namespace. It is deterministic and writes nothing. The error is a *LimitError if
// the limits are exceeded, or the context's error; the Answer then contains only Heads.
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
	return Answer{Problems: map[types.UID]*Problem{}, Heads: map[types.UID]string{}, HeldBack: map[types.UID]*Problem{}}
}

// maxMessage bounds the length of a message, in bytes: messages contain text from catalogs, and there is one for each
// Subscription.
const maxMessage = 8 * 1024

// cut truncates messages that are too long.
func (a *Answer) cut() {
	for _, problems := range []map[types.UID]*Problem{a.Problems, a.HeldBack} {
		for _, p := range problems {
			p.Message = cutMessage(p.Message)
		}
	}
}

func cutMessage(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + " … (truncated)"
}

// decision is the state of one resolution.
type decision struct {
	in       Input
	answer   Answer
	subjects []Subject
	// others are the versions that do not belong to a Subscription. They are read once for all rounds of solve.
	others []*operator

	meter *meter
	// last is the problem that was solved last, or nil.
	last *problem

	// indexes contains the indexes of the available catalogs in the namespace's order of preference; unavailable names
	// the visible catalogs whose content is not available.
	indexes     []*index
	unavailable []types.NamespacedName
	// missing contains an empty index for each catalog without content from which a plan in progress installs.
	missing map[types.NamespacedName]*index
	// roots contains the Subscriptions that need versions.
	roots []*root
}

// root is a Subscription and the versions that satisfy it, best first.
type root struct {
	Subject
	candidates []*operator
	// relaxed means that the existing versions already violate the constraints: they stay, and the Subscription adds no
	// constraint.
	relaxed bool
	// only is the only acceptable candidate; nil if every candidate is acceptable.
	only *operator
}

func (r *root) name() string { return r.Subscription.Name }

// openCatalogs finds the catalogs that the namespace can use. It sorts them by descending priority, then the
// namespace's own catalogs before the global ones, then by name (OLM v0 contract).
func (d *decision) openCatalogs() {
	type ranked struct {
		*index
		priority int
	}
	d.in.Indexes.prune(d.in.Catalogs)
	var all []ranked
	for _, key := range d.in.Visible {
		if !d.in.canUse(key) {
			continue
		}
		snapshot, ok := d.in.Snapshot(key)
		if !ok {
			d.unavailable = append(d.unavailable, key)
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
	slices.SortFunc(d.unavailable, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}

func (d *decision) indexOf(key types.NamespacedName) *index {
	for _, x := range d.indexes {
		if x.key == key {
			return x
		}
	}
	return nil
}

// findRoots finds the versions that satisfy each Subscription. It stops when the meter has an error.
func (d *decision) findRoots() {
	for _, s := range d.subjects {
		if d.meter.Spend(1) != nil || d.meter.checkContext() != nil {
			return
		}
		found, problem := d.findChannel(s)
		if problem == nil && found.chain.err == nil {
			d.answer.Heads[s.Subscription.UID] = found.chain.names[0]
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

// candidatesOf returns the versions that satisfy a Subscription, best first, or none if the Subscription adds nothing
// to the resolution. The returned problem is reported on the Subscription even if there are candidates. found and
// problem are the results of findChannel.
func (d *decision) candidatesOf(s Subject, found *found, problem *Problem) ([]*operator, *Problem) {
	switch {
	case s.Planned != nil:
		return []*operator{d.planned(s)}, nil
	case s.Installed != nil:
		candidates := d.successors(s, found, problem)
		if problem == nil && found.chain.err == nil {
			d.explainNoUpgrade(s, found, candidates)
		}
		if problem != nil && problem.Reason != ConstraintsNotSatisfiable {
			problem = nil
		}
		return candidates, problem
	case problem != nil || s.Optional:
		return nil, problem
	}
	if n := len(found.chain.installable); d.meter.Spend(costOfCandidate*n) != nil || d.meter.charge(int64(n)*memoryOfHit) != nil {
		return nil, nil
	}
	return installable(d.meter, s.Subscription, found)
}

// planned returns the version that a plan in progress installs. Its facts come from the catalog or, if the catalog does
// not contain the version, from the pin alone.
func (d *decision) planned(s Subject) *operator {
	p := s.Planned
	x := d.indexOf(p.CatalogKey())
	if x == nil {
		x = d.missing[p.CatalogKey()]
	}
	if x == nil {
		x = emptyIndex(p.CatalogKey())
		if d.missing == nil {
			d.missing = map[types.NamespacedName]*index{}
		}
		d.missing[x.key] = x
	}
	f := x.bundles[p.Package][p.Bundle]
	if f == nil {
		f = &facts{name: p.Bundle, pkg: p.Package}
	}
	o := x.newOperator(p.Channel, f)
	o.planned = true
	return o
}

// successors returns the versions that can replace the installed version, followed by the installed version itself.
func (d *decision) successors(s Subject, found *found, problem *Problem) []*operator {
	current := d.meter.existing(d.factsOf(s))
	if s.Keep || problem != nil || found.chain.err != nil {
		return []*operator{current}
	}
	if d.meter.Spend(found.chain.cost) != nil {
		return []*operator{current}
	}
	var out []*operator
	newer := found.chain.successors(current.facts, found.index.bundles[s.Subscription.Spec.Package])
	if d.meter.charge(int64(len(newer))*(memoryOfOperator+memoryOfHit)) != nil {
		return []*operator{current}
	}
	for _, f := range newer {
		o := found.index.newOperator(found.channel, f)
		o.replaces = s.Installed.Name
		out = append(out, o)
	}
	return append(out, current)
}

// factsOf returns the facts of a Subscription's installed version. Facts recorded at installation take precedence over
// the catalog, which may have changed since; without them, the catalog takes precedence over the ClusterServiceVersion.
func (d *decision) factsOf(s Subject) *facts {
	spec := s.Subscription.Spec
	var published *facts
	if x := d.indexOf(types.NamespacedName{Namespace: spec.CatalogSourceNamespace, Name: spec.CatalogSource}); x != nil {
		published = x.bundles[spec.Package][s.Installed.Name]
	}
	if published != nil && d.meter.Spend(len(published.properties)) == nil && published.isNoted(s.Installed.Annotations[names.AnnotationProperties]) {
		return published // the published facts are equal, and already parsed
	}
	_ = d.meter.Spend(costOfReading(s.Installed)) // the meter keeps the error
	f := notedFacts(s.Installed, spec.Package)
	switch {
	case f != nil:
	case published != nil:
		return published
	default:
		f = installedFacts(s.Installed, spec.Package)
	}
	_ = d.meter.charge(memoryOfReading(s.Installed, f))
	return f
}
