package resolver

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// Reasons why a newer version does not replace an installed one.
const (
	// NoUpgradeInChannel means that nothing in the channel replaces the installed version.
	NoUpgradeInChannel = "NoUpgradeInChannel"
	// UpgradeClashes means that the replacement conflicts with other versions in the namespace, or has unmet
	// requirements.
	UpgradeClashes = "UpgradeClashes"
)

// maxExplained bounds the number of Subscriptions of one namespace whose conflicts are analyzed: each may run the
// solver twice.
const maxExplained = 5

// explainHeldBack records why Subscriptions keep their installed version although their channel has a replacement.
func (d *decision) explainHeldBack(taken map[sat.ID]bool) {
	explained := 0
	for _, r := range d.roots {
		if r.Installed == nil || r.Planned != nil || r.Keep || len(r.candidates) < 2 {
			continue
		}
		if d.meter.Spend(len(r.candidates)) != nil {
			return
		}
		best, current := r.candidates[0], r.candidates[len(r.candidates)-1]
		if slices.ContainsFunc(r.candidates[:len(r.candidates)-1], func(o *operator) bool { return taken[o.id()] }) {
			continue
		}
		why := "other requirements in the namespace take precedence"
		if explained < maxExplained {
			explained++
			if causes := d.causes(r, best, taken); len(causes) > 0 {
				why = abbreviate(causes)
			}
		}
		d.answer.HeldBack[r.Subscription.UID] = &Problem{Reason: UpgradeClashes, Message: fmt.Sprintf(
			"%s of channel %s cannot replace %s: %s", best.name, best.channel, current.name, why)}
		if d.meter.charge(int64(len(d.answer.HeldBack[r.Subscription.UID].Message))) != nil {
			return
		}
	}
}

// explainNoUpgrade records why a Subscription keeps its installed version, if this is not the head of the channel and
// nothing in the channel can replace it.
func (d *decision) explainNoUpgrade(s Subject, f *found, candidates []*operator) {
	head := f.chain.names[0]
	if s.Keep || len(candidates) > 1 || head == s.Installed.Name {
		return
	}
	message := fmt.Sprintf("no bundle in channel %s, whose head is %s, replaces %s", f.channel, head, s.Installed.Name)
	if facts := f.index.bundles[s.Subscription.Spec.Package][head]; facts != nil && facts.deprecated {
		message = fmt.Sprintf("%s of channel %s is deprecated and cannot be installed; %s stays installed", head, f.channel, s.Installed.Name)
	}
	d.answer.HeldBack[s.Subscription.UID] = &Problem{Reason: NoUpgradeInChannel, Message: message}
}

// causes describes why a version cannot be installed. It first assumes that the versions for the other Subscriptions
// can be chosen freely. If the version can be installed under that assumption, causes next assumes the versions that
// were actually selected for them. It returns nil if it finds no cause.
func (d *decision) causes(r *root, best *operator, taken map[sat.ID]bool) []string {
	outer := d.meter.ofProblems // that of the solution, which is still needed
	defer d.meter.release(outer)
	for _, fixed := range []bool{false, true} {
		d.meter.release(outer)
		other := *d
		other.answer, other.roots = newAnswer(), nil
		for _, old := range d.roots {
			modified := *old
			switch {
			case old == r:
				modified.relaxed, modified.only = false, best
			case fixed && d.meter.Spend(len(old.candidates)) == nil:
				modified.only = firstTaken(old.candidates, taken)
			}
			other.roots = append(other.roots, &modified)
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

// firstTaken returns the first operator whose ID is marked as taken, or nil if there is none.
func firstTaken(all []*operator, taken map[sat.ID]bool) *operator {
	for _, o := range all {
		if taken[o.id()] {
			return o
		}
	}
	return nil
}

// causes describes the unmet needs and uniqueness conflicts of a clash. If there are none, Subscriptions to the same
// package clash, and causes describes which versions the other Subscriptions have or request.
func (p *problem) causes(core []sat.Applied, r *root) []string {
	involved := p.involved(core)
	unavailable := p.unavailableCatalogs()
	var causes, others []string
	for _, a := range core {
		n := a.Constraint.Note.(*note)
		if p.meter.Spend(1+len(a.Constraint.IDs)) != nil || p.meter.chargeProblem(1, maxMessage) != nil {
			return nil
		}
		switch {
		case n.need != nil && len(a.Constraint.IDs) == 0:
			causes = append(causes, p.describe(a.Constraint, involved)+", which no visible catalog provides"+unavailable)
		case n.need != nil, n.bad != nil, n.api != nil:
			causes = append(causes, p.describe(a.Constraint, involved))
		case n.root != nil && n.root.Subscription.UID != r.Subscription.UID && a.Constraint.Kind == sat.Dependency:
			verb := "requests"
			if n.root.Installed != nil {
				verb = "has"
			}
			others = append(others, fmt.Sprintf("subscription %s %s %s", n.root.name(), verb, join(p.namesOf(a.Constraint.IDs))))
		case n.other != nil:
			others = append(others, p.describe(a.Constraint, involved))
		}
	}
	if len(causes) == 0 {
		causes = others
	}
	slices.Sort(causes)
	return slices.Compact(causes)
}

// unavailableCatalogs returns a remark that names the catalogs whose content is not available, or "" if there are none.
func (p *problem) unavailableCatalogs() string {
	if len(p.unavailable) == 0 {
		return ""
	}
	return fmt.Sprintf(" (the content of catalogsource %s is not available)", abbreviate(listed(p.unavailable, types.NamespacedName.String)))
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
