package resolver

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// maxNamed bounds the number of versions that a message lists.
const maxNamed = 3

// explain describes a clash for one of the Subscriptions involved: first in the wording of the contract, then in one
// sentence with the cause and a fix.
func (d *decision) explain(p *problem, c clash, r *root) *Problem {
	reason, sentence := d.advice(p, c.core, r, c.involved)
	return &Problem{Reason: reason, Message: cutMessage(fmt.Sprintf("constraints not satisfiable: %s. %s", c.text, sentence))}
}

// clash contains clashing constraints and the part of their explanation that is the same for all Subscriptions
// involved.
type clash struct {
	core     []sat.Applied
	involved map[sat.ID]bool
	// text describes the clash in the wording of the contract.
	text string
	// cost is the cost of explaining the clash for one Subscription.
	cost int
}

func (p *problem) clashOf(core []sat.Applied) clash {
	c := clash{core: core, involved: p.involved(core), cost: len(core) + maxMessage*costOfByte/10}
	var words []string
	size := 0
	for _, a := range core {
		c.cost += len(a.Constraint.Note.(*note).ids)
	}
	for i, a := range core {
		if p.meter.Spend(1+len(words)) != nil {
			return c
		}
		text := p.describe(a.Constraint, c.involved)
		if slices.Contains(words, text) {
			continue
		}
		words = append(words, text)
		if size += len(text); size > maxMessage/2 && i+1 < len(core) {
			words = append(words, fmt.Sprintf("and %d more", len(core)-i-1))
			break
		}
	}
	c.text = strings.Join(words, ", ")
	return c
}

// involved returns the versions that the constraints of a clash mention, except uniqueness constraints.
func (p *problem) involved(core []sat.Applied) map[sat.ID]bool {
	out := map[sat.ID]bool{}
	for _, a := range core {
		n := 1 + len(a.Constraint.IDs)
		if p.meter.Spend(n) != nil || p.meter.chargeProblem(n, memoryOfCandidate) != nil {
			return out
		}
		if a.Variable != (sat.ID{}) {
			out[a.Variable] = true
			for _, id := range a.Constraint.IDs {
				out[id] = true
			}
		}
	}
	return out
}

// describe describes a constraint in the wording of the contract.
func (p *problem) describe(c sat.Constraint, involved map[sat.ID]bool) string {
	n := c.Note.(*note)
	switch {
	case n.root != nil && c.Kind == sat.Mandatory:
		return fmt.Sprintf("subscription %s exists", n.root.name())
	case n.root != nil && len(c.IDs) == 1:
		return fmt.Sprintf("subscription %s requires %s", n.root.name(), c.IDs[0])
	case n.root != nil:
		return fmt.Sprintf("subscription %s requires at least one of %s", n.root.name(), abbreviate(listed(c.IDs, sat.ID.String)))
	case n.need != nil:
		return fmt.Sprintf("bundle %s requires an operator %s", n.op.name, n.need.what.text)
	case n.bad != nil:
		return fmt.Sprintf("bundle %s has an invalid dependency: %s", n.op.name, message.OneLine(n.bad.Error()))
	case n.other != nil:
		return fmt.Sprintf("clusterserviceversion %s exists and is not referenced by a subscription", n.other.name)
	}
	rivals := p.rivals(n, involved)
	if n.api != nil {
		return fmt.Sprintf("%s provide %s", join(rivals), n.api)
	}
	return fmt.Sprintf("%s originate from package %s", join(rivals), n.pkg)
}

// rivals returns the versions that clash because of a uniqueness constraint.
func (p *problem) rivals(n *note, involved map[sat.ID]bool) []string {
	if p.meter.Spend(len(n.ids)) != nil {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for _, id := range n.ids {
		if name := p.operators[id].name; involved[id] && !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	if n.pkg != "" && len(out) < 2 { // one version in two channels or catalogs, which only IDs distinguish
		var ids []sat.ID
		for _, id := range n.ids {
			if involved[id] {
				ids = append(ids, id)
			}
		}
		return listed(ids, sat.ID.String)
	}
	return out
}

// advice returns the Problem's reason, and a sentence with the cause and a fix. The reason is
// ErrorPreventedResolution if an unavailable catalog could help.
func (d *decision) advice(p *problem, core []sat.Applied, r *root, involved map[sat.ID]bool) (reason, sentence string) {
	for _, a := range core {
		n := a.Constraint.Note.(*note)
		if n.need != nil && len(a.Constraint.IDs) == 0 {
			return d.adviseMissing(n, r)
		}
	}
	var unique *note
	for _, a := range core {
		if n := a.Constraint.Note.(*note); n.api != nil || n.pkg != "" {
			unique = n
			break
		}
	}
	others := otherNames(core, r)
	switch {
	case unique == nil:
		return ConstraintsNotSatisfiable, fmt.Sprintf("None of the versions available to subscription %s can be installed: choose "+
			"another channel, or contact the author of the package", r.name())
	case unique.pkg != "" && len(others) == 0:
		return ConstraintsNotSatisfiable, adviseOneVersion(core, r, unique.pkg)
	case unique.pkg != "":
		return ConstraintsNotSatisfiable, fmt.Sprintf("%s require different versions of package %s, but a namespace can have only one: change them "+
			"to require the same version, or move one of them to another namespace", "Subscriptions "+join(append([]string{r.name()}, others...)), unique.pkg)
	}
	owners := p.rivals(unique, involved)
	return ConstraintsNotSatisfiable, fmt.Sprintf("%s would each own %s, but only one operator in a namespace can own it: delete %s or the subscription that "+
		"installed the other, or use another namespace", join(owners), unique.api, "subscription "+r.name())
}

// adviseMissing returns the advice for a need that has no candidates.
func (d *decision) adviseMissing(n *note, r *root) (reason, sentence string) {
	author := ""
	if n.need.what.message != "" {
		author = fmt.Sprintf(" (%s)", n.need.what.message)
	}
	text := fmt.Sprintf("No catalog visible to namespace %s provides what bundle %s requires%s", d.in.Namespace, n.op.name, author)
	if len(d.unavailable) > 0 {
		return ErrorPreventedResolution, fmt.Sprintf("%s: the content of catalogsource %s is not available, but it may include what the bundle requires", text, abbreviate(listed(d.unavailable, types.NamespacedName.String)))
	}
	return ConstraintsNotSatisfiable, fmt.Sprintf("%s: add a catalog that provides it, or delete subscription %s", text, r.name())
}

func otherNames(core []sat.Applied, r *root) []string {
	var out []string
	for _, other := range rootsIn(core) {
		if other != r {
			out = append(out, other.name())
		}
	}
	return out
}

// listed returns the texts of a list for abbreviate or join. There can be 50,000 of them: those that a message only counts are empty.
func listed[T any](all []T, text func(T) string) []string {
	out := make([]string, len(all))
	for i := range all[:min(len(all), maxNamed+1)] {
		out[i] = text(all[i])
	}
	return out
}

// abbreviate lists the first few items and counts the rest.
func abbreviate(list []string) string {
	if len(list) <= maxNamed {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNamed], ", "), len(list)-maxNamed)
}

// join formats a list as prose.
func join(list []string) string {
	if len(list) > maxNamed+1 {
		return abbreviate(list)
	}
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
