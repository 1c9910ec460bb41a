package resolver

import (
	"errors"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// solve finds versions for the roots. It reports a problem for clashing roots and removes them until the rest can be
// satisfied.
func (d *decision) solve() {
	for len(d.roots) > 0 && d.meter.Spend(len(d.roots)) == nil {
		d.last = nil // otherwise, it would exist together with the next problem
		d.meter.release(0)
		if p, taken, ok := d.solveGreedily(); ok {
			d.choose(p, taken)
			return
		}
		d.meter.release(0)
		p, err := d.build()
		d.last = p
		var taken []sat.ID
		if err == nil {
			taken, err = p.sat.Solve(d.meter)
		}
		var clash *sat.Unsatisfiable
		switch {
		case d.meter.err != nil:
			return
		case err == nil:
			d.choose(p, taken)
			return
		case errors.As(err, &clash):
			d.dropClashing(p, clash.Core)
		default:
			for _, r := range d.roots {
				d.answer.Problems[r.Subscription.UID] = &Problem{Reason: ErrorPreventedResolution, Message: err.Error()}
			}
			return
		}
	}
}

// dropClashing removes the clashing Subscriptions that would install something new. If there are none, it relaxes the
// clashing Subscriptions, because existing versions can stay as they are.
func (d *decision) dropClashing(p *problem, core []sat.Applied) {
	var new, all []*root
	for _, r := range rootsIn(core) {
		all = append(all, r)
		if r.Installed == nil && r.Planned == nil {
			new = append(new, r)
		}
	}
	if len(new) == 0 {
		for _, r := range all {
			r.relaxed = true
		}
		if len(all) == 0 { // only versions without a Subscription clash: they exist regardless of the constraints
			d.others = nil
		}
		return
	}
	c := p.clashOf(core)
	leaving := map[*root]bool{}
	for _, r := range new {
		if d.meter.Spend(c.cost) != nil || d.meter.checkContext() != nil {
			return
		}
		leaving[r] = true
		problem := d.explain(p, c, r)
		d.answer.Problems[r.Subscription.UID] = problem
		_ = d.meter.charge(int64(len(problem.Message))) // the meter keeps the error
	}
	d.roots = slices.DeleteFunc(d.roots, func(r *root) bool { return leaving[r] })
}

func rootsIn(core []sat.Applied) []*root {
	var out []*root
	seen := map[*root]bool{}
	for _, a := range core {
		if r := a.Constraint.Note.(*note).root; r != nil && !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	}
	return out
}

// choose adds the changes in a solution to the answer.
func (d *decision) choose(p *problem, taken []sat.ID) {
	c := &changes{problem: p, taken: map[sat.ID]bool{}, neededBy: map[sat.ID][]*operatorsv1alpha1.Subscription{}, set: map[sat.ID]sat.ID{}}
	if d.meter.Spend(len(taken)) != nil || d.meter.charge(int64(len(taken))*memoryOfChange) != nil {
		return
	}
	for _, id := range taken {
		c.taken[id] = true
		if o := p.operators[id]; o != nil && !o.inPlace() {
			c.ids = append(c.ids, id)
			c.set[id] = id
		}
	}
	choices := map[sat.ID]Choice{}
	for _, id := range c.ids {
		o := p.operators[id]
		if d.meter.Spend(len(d.subjects)) != nil {
			return
		}
		choices[id] = Choice{
			Catalog: o.catalog, Package: o.pkg, Channel: o.channel, Bundle: o.name, Replaces: o.replaces, Subscription: d.dependencySubscription(o),
		}
	}
	for _, r := range d.roots {
		if d.meter.Spend(len(r.candidates)) != nil {
			return
		}
		if o := c.changeIn(r.candidates); o != nil {
			choice := choices[o.id()]
			choice.Subscription = r.Subscription
			choices[o.id()] = choice
			c.recordNeed(o.id(), r.Subscription)
		}
	}
	c.recordNeedsInPlace(d.roots)
	d.explainHeldBack(c.taken)
	c.join()
	byRoot := map[sat.ID]int{}
	for _, id := range c.ids {
		choice := choices[id]
		choice.NeededBy = c.neededBy[id]
		slices.SortFunc(choice.NeededBy, func(a, b *operatorsv1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) })
		k, ok := byRoot[c.find(id)]
		if !ok {
			k = len(d.answer.Sets)
			byRoot[c.find(id)] = k
			d.answer.Sets = append(d.answer.Sets, nil)
		}
		d.answer.Sets[k] = append(d.answer.Sets[k], choice)
	}
}

// dependencySubscription returns the Subscription that was created earlier to install a version as a dependency, or
// nil.
func (d *decision) dependencySubscription(o *operator) *operatorsv1alpha1.Subscription {
	for _, s := range d.subjects {
		spec := s.Subscription.Spec
		if s.Optional && spec.Package == o.pkg && spec.Channel == o.channel && spec.StartingCSV == o.name &&
			spec.CatalogSource == o.catalog.Name && spec.CatalogSourceNamespace == o.catalog.Namespace {
			return s.Subscription
		}
	}
	return nil
}

// changes contains the new versions of a solution and how they are grouped.
type changes struct {
	*problem
	taken    map[sat.ID]bool
	ids      []sat.ID
	neededBy map[sat.ID][]*operatorsv1alpha1.Subscription
	// set is a union-find forest: each change points to another change of its set or, if it is the root, to itself.
	set map[sat.ID]sat.ID
}

// changeIn returns the taken candidate if it is a change, and nil otherwise.
func (c *changes) changeIn(candidates []*operator) *operator {
	if o := firstTaken(candidates, c.taken); o != nil && c.set[o.id()] != (sat.ID{}) {
		return o
	}
	return nil
}

// recordNeed records that a Subscription needs a change and, transitively, what the change needs.
func (c *changes) recordNeed(id sat.ID, sub *operatorsv1alpha1.Subscription) {
	if c.meter.Spend(1+len(c.neededBy[id])) != nil || slices.Contains(c.neededBy[id], sub) {
		return
	}
	if c.meter.charge(memoryOfNeeder) != nil {
		return
	}
	c.neededBy[id] = append(c.neededBy[id], sub)
	for _, n := range c.needs[id] {
		if c.meter.Spend(len(n.candidates)) != nil {
			return
		}
		if other := c.changeIn(n.candidates); other != nil {
			c.recordNeed(other.id(), sub)
		}
	}
}

// recordNeedsInPlace records what versions need that stay in place: a dependency that takes the place of one that is upgraded. It
// attributes such a change, and what it needs, to the Subscription of the version or, if it has none, to all Subscriptions, and
// groups it with the upgrade.
func (c *changes) recordNeedsInPlace(roots []*root) {
	for _, id := range slices.SortedFunc(maps.Keys(c.taken), func(a, b sat.ID) int { return strings.Compare(a.String(), b.String()) }) {
		if o := c.operators[id]; o == nil || !o.inPlace() {
			continue
		}
		subs := c.requesting(roots, id)
		for _, n := range c.needs[id] {
			c.recordNeedInPlace(n, subs)
		}
	}
}

// recordNeedInPlace does so for one need of a version with these Subscriptions.
func (c *changes) recordNeedInPlace(n *need, subs []*operatorsv1alpha1.Subscription) {
	if c.meter.Spend(1+len(n.candidates)) != nil {
		return
	}
	other := c.changeIn(n.candidates)
	if other == nil {
		return
	}
	for _, sub := range subs {
		c.recordNeed(other.id(), sub)
	}
	for _, change := range c.ids {
		if c.meter.Spend(1) != nil {
			return
		}
		if old := c.replaced(change); old != nil && c.meter.Spend(len(n.candidates)/10) == nil && slices.Contains(n.candidates, old) {
			c.union(change, other.id())
		}
	}
}

// requesting returns the Subscriptions of a version or, if it has none, all Subscriptions.
func (c *changes) requesting(roots []*root, id sat.ID) (subs []*operatorsv1alpha1.Subscription) {
	var all []*operatorsv1alpha1.Subscription
	for _, r := range roots {
		if c.meter.Spend(1+len(r.candidates)) != nil {
			return nil
		}
		all = append(all, r.Subscription)
		if slices.ContainsFunc(r.candidates, func(o *operator) bool { return o.id() == id }) {
			subs = append(subs, r.Subscription)
		}
	}
	if len(subs) == 0 {
		return all
	}
	return subs
}

// join groups two changes if one of them needs the other. It also groups them if one of them provides a kind that the
// old version of the other owned, or replaces a version that the old version of the other needs without meeting that
// need.
func (c *changes) join() {
	for _, id := range c.ids {
		if c.meter.Spend(len(c.ids)) != nil {
			return
		}
		for _, n := range c.needs[id] {
			if c.meter.Spend(1+len(n.candidates)) != nil {
				return
			}
			if other := c.changeIn(n.candidates); other != nil {
				c.union(id, other.id())
			}
		}
		old := c.replaced(id)
		if old == nil {
			continue
		}
		for _, other := range c.ids {
			if other != id && c.touches(old, other) {
				c.union(id, other)
			}
		}
	}
}

// replaced returns the version that a change replaces, or nil.
func (c *changes) replaced(id sat.ID) *operator {
	o := c.operators[id]
	if o.replaces == "" {
		return nil
	}
	return c.present[c.meter.existingID(o.replaces)]
}

// touches reports whether a change provides a kind that the version old owned, or replaces a version that old needs
// without meeting that need.
func (c *changes) touches(old *operator, change sat.ID) bool {
	if c.meter.Spend(1+len(old.apis)*len(c.operators[change].apis)/10) != nil {
		return false
	}
	if slices.ContainsFunc(c.operators[change].apis, func(a api) bool { return slices.Contains(old.apis, a) }) {
		return true
	}
	removed := c.replaced(change)
	if removed == nil {
		return false
	}
	asked, err := old.requirements(c.meter)
	return err == nil && slices.ContainsFunc(asked, func(r requirement) bool {
		return c.meter.Spend(1+r.cost) == nil && r.match(c.meter, removed.facts) && !r.match(c.meter, c.operators[change].facts)
	})
}

func (c *changes) find(id sat.ID) sat.ID {
	for c.set[id] != id {
		c.set[id] = c.set[c.set[id]] // halves the path, which can lead through all changes
		id = c.set[id]
	}
	return id
}

func (c *changes) union(a, b sat.ID) { c.set[c.find(b)] = c.find(a) }
