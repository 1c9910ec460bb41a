package preflight

import (
	"fmt"
	"maps"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
)

// MaxChanges is the maximum length, in bytes, of the part of a Report's text that lists changed permissions.
const MaxChanges = 4 * 1024

// Change lists the permissions that an operator gains and loses in one scope when a new version replaces the installed
// one.
type Change struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Namespace is "" for the whole cluster.
	Namespace string              `json:"namespace"`
	Added     []rbacv1.PolicyRule `json:"added,omitempty"`
	Removed   []rbacv1.PolicyRule `json:"removed,omitempty"`
}

// ChangesOf returns the differences between the permissions of two versions for an OperatorGroup with these targets.
// It returns one Change for each scope in which the permissions differ; the whole cluster comes first.
func ChangesOf(from, to *operatorsv1alpha1.ClusterServiceVersion, namespace string, targets []string) []Change {
	before, after := rulesByScope(from, namespace, targets), rulesByScope(to, namespace, targets)
	scopes := maps.Clone(before)
	maps.Copy(scopes, after)
	var out []Change
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		c := Change{
			From: from.Name, To: to.Name, Namespace: scope,
			Added: difference(after[scope], before[scope]), Removed: difference(before[scope], after[scope]),
		}
		if len(c.Added)+len(c.Removed) > 0 {
			out = append(out, c)
		}
	}
	return out
}

func rulesByScope(csv *operatorsv1alpha1.ClusterServiceVersion, namespace string, targets []string) map[string][]rbacv1.PolicyRule {
	out := map[string][]rbacv1.PolicyRule{}
	for _, g := range build.Grants(csv, namespace, targets) {
		out[g.Namespace] = append(out[g.Namespace], g.Rules...)
	}
	return out
}

// difference returns the rules of a that b does not cover. It returns nil if the rules are too large to compare,
// because plans with such rules are refused.
func difference(a, b []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	a, b = compacted(a), compacted(b)
	if rbac.TooLarge(a) || rbac.TooLarge(b) {
		return nil
	}
	return rbac.Minimal(rbac.NewSet(b).Missing(a))
}

// compacted returns the rules, in compact form if they are too large to compare.
func compacted(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if rbac.TooLarge(rules) {
		return rbac.Minimal(rules)
	}
	return rules
}

// ChangedText returns text that lists, with one rule per line, the permissions that the versions of a plan gain and
// lose; "" if permissions do not change.
func (r Report) ChangedText() message.Text {
	var lines []message.Text
	var head message.Text
	for _, c := range r.Changes {
		if h := message.Sprintf("%s requests %s %s:", c.To, comparison(r.Changes, c), c.From); h != head {
			head = h
			lines = append(lines, head)
		}
		where := "cluster-wide"
		if c.Namespace != rbac.ClusterScope {
			where = fmt.Sprintf("in namespace %q", c.Namespace)
		}
		for _, rule := range c.Added {
			lines = append(lines, message.Sprintf("+ %s %s", rbac.Line(rule), where))
		}
		for _, rule := range c.Removed {
			lines = append(lines, message.Sprintf("- %s %s", rbac.Line(rule), where))
		}
	}
	return join(lines, MaxChanges)
}

// comparison returns a phrase that describes whether the new version of a Change requests more, fewer or different
// permissions in all scopes together.
func comparison(all []Change, of Change) string {
	more, fewer := false, false
	for _, c := range all {
		if c.From == of.From && c.To == of.To {
			more, fewer = more || len(c.Added) > 0, fewer || len(c.Removed) > 0
		}
	}
	switch {
	case more && fewer:
		return "different permissions than"
	case more:
		return "more permissions than"
	}
	return "fewer permissions than"
}
