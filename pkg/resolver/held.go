package resolver

import (
	"errors"
	"fmt"
	"slices"

	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// Reasons of why a newer version does not take the place of an installed one.
const (
	// NoUpgradeInChannel: nothing in the channel replaces it.
	NoUpgradeInChannel = "NoUpgradeInChannel"
	// UpgradeClashes: what does cannot stand beside what else is asked for in the namespace, or lacks something.
	UpgradeClashes = "UpgradeClashes"
)

// maxExplained bounds the Subscriptions of one namespace of which it is found out what an upgrade clashes with: each
// takes the solver up to twice.
const maxExplained = 5

// hold notes of Subscriptions with something installed, at the end, why it stays although their channel has
// something else.
func (d *decision) hold(taken map[sat.ID]bool) {
	explained := 0
	for _, r := range d.roots {
		if r.Installed == nil || r.Planned != nil || r.Keep || len(r.candidates) < 2 {
			continue
		}
		best, there := r.candidates[0], r.candidates[len(r.candidates)-1]
		if slices.ContainsFunc(r.candidates[:len(r.candidates)-1], func(o *operator) bool { return taken[o.id] }) {
			continue
		}
		why := "what else is asked for in the namespace comes first"
		if explained < maxExplained {
			explained++
			if causes := d.causes(r, best, taken); len(causes) > 0 {
				why = some(causes)
			}
		}
		d.answer.Held[r.Subscription.UID] = &Problem{Reason: UpgradeClashes, Message: fmt.Sprintf(
			"%s of channel %s does not take the place of %s: %s", best.name, best.channel, there.name, why)}
	}
}

// holdInChannel is hold for an installed version that nothing in the channel takes the place of.
func (d *decision) holdInChannel(s Subject, f *found, candidates []*operator) {
	head := f.chain.entries[0].Name
	if s.Keep || len(candidates) > 1 || head == s.Installed.Name {
		return
	}
	message := fmt.Sprintf("nothing in channel %s, which leads to %s, takes the place of %s", f.channel, head, s.Installed.Name)
	if facts := f.index.bundles[s.Subscription.Spec.Package][head]; facts != nil && facts.deprecated {
		message = fmt.Sprintf("%s of channel %s is deprecated and may not be installed: %s stays", head, f.channel, s.Installed.Name)
	}
	d.answer.Held[s.Subscription.UID] = &Problem{Reason: NoUpgradeInChannel, Message: message}
}

// causes are why a version cannot be had: of all that is asked for, or else beside what the others were given.
func (d *decision) causes(r *root, best *operator, taken map[sat.ID]bool) []string {
	for _, fixed := range []bool{false, true} {
		other := *d
		other.answer, other.roots = newAnswer(), nil
		for _, old := range d.roots {
			insisting := *old
			switch {
			case old == r:
				insisting.loose, insisting.must = false, best
			case fixed:
				insisting.must = given(old.candidates, taken)
			}
			other.roots = append(other.roots, &insisting)
		}
		p, err := other.build()
		if err == nil {
			_, err = p.sat.Solve(d.meter)
		}
		var clash *sat.Unsatisfiable
		if errors.As(err, &clash) {
			return p.causes(clash.Core, r)
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// given is the first of them that is taken; nil where none is.
func given(all []*operator, taken map[sat.ID]bool) *operator {
	for _, o := range all {
		if taken[o.id] {
			return o
		}
	}
	return nil
}

// causes words what in a clash an upgrade meets: what somebody needs, and of what there may be one; where that is all
// about its own package, what the others that ask for it have.
func (p *problem) causes(core []sat.Applied, r *root) []string {
	involved := involved(core)
	var causes, others []string
	for _, a := range core {
		n := a.Constraint.Note.(*note)
		switch {
		case n.need != nil && len(a.Constraint.IDs) == 0:
			causes = append(causes, p.words(a.Constraint, involved)+", which no catalog that may be used offers"+p.perhaps())
		case n.need != nil, n.bad != nil, n.api != nil:
			causes = append(causes, p.words(a.Constraint, involved))
		case n.root != nil && n.root.Subscription.UID != r.Subscription.UID && a.Constraint.Kind == sat.Dependency:
			verb := "asks for"
			if n.root.Installed != nil {
				verb = "has"
			}
			others = append(others, fmt.Sprintf("subscription %s %s %s", n.root.name(), verb, join(p.namesOf(a.Constraint.IDs))))
		case n.other != nil:
			others = append(others, p.words(a.Constraint, involved))
		}
	}
	if len(causes) == 0 {
		causes = others
	}
	slices.Sort(causes)
	return slices.Compact(causes)
}

// perhaps names the catalogs that have no content now.
func (p *problem) perhaps() string {
	if len(p.sick) == 0 {
		return ""
	}
	return fmt.Sprintf(" (the content of catalogsource %s is not available)", some(keys(p.sick)))
}

func (p *problem) namesOf(ids []sat.ID) []string {
	var out []string
	for _, id := range ids {
		if o := p.operators[id]; o != nil {
			out = append(out, o.name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
