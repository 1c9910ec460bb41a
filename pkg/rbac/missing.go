package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// MaxAtoms bounds the (group, resource, name, verb) combinations that one question may expand to.
const MaxAtoms = 50_000

// Missing returns what of the wanted rules the held ones do not cover: compacted, sorted, and empty
// where all is covered.
func Missing(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if covered, missing := validation.Covers(held, wanted); !covered {
		return Compact(missing)
	}
	return nil
}

// Validate says, as the API server does, what is wrong with a rule that is to go into a Role
// (namespaced) or a ClusterRole; nil where nothing is. A rule that fails here covers nothing and is
// covered by nothing.
func Validate(rule rbacv1.PolicyRule, namespaced bool) error {
	if len(rule.Verbs) == 0 {
		return fmt.Errorf("rule %s has no verbs", Line(rule))
	}
	if len(rule.NonResourceURLs) > 0 {
		switch {
		case namespaced:
			return fmt.Errorf("rule %s: nonResourceURLs can be granted for the whole cluster only", Line(rule))
		case len(rule.APIGroups) > 0 || len(rule.Resources) > 0 || len(rule.ResourceNames) > 0:
			return fmt.Errorf("rule %s mixes resources and nonResourceURLs", Line(rule))
		}
		return nil
	}
	if len(rule.APIGroups) == 0 {
		return fmt.Errorf("rule %s has no apiGroups", Line(rule))
	}
	if len(rule.Resources) == 0 {
		return fmt.Errorf("rule %s has no resources", Line(rule))
	}
	if atoms(rule) > MaxAtoms {
		return fmt.Errorf("a rule expands to more than %d combinations", MaxAtoms)
	}
	return nil
}

func atoms(r rbacv1.PolicyRule) int {
	return max(1, len(r.APIGroups)) * max(1, len(r.Resources)) * max(1, len(r.Verbs)) * max(1, len(r.ResourceNames))
}

// Compact merges rules that together say the same in fewer words, first by verbs, then by names,
// then by resources, then by API groups, and sorts the result.
func Compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := explode(rules)
	for _, field := range []func(*rbacv1.PolicyRule) *[]string{
		func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs },
		func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames },
		func(r *rbacv1.PolicyRule) *[]string { return &r.Resources },
		func(r *rbacv1.PolicyRule) *[]string { return &r.APIGroups },
		func(r *rbacv1.PolicyRule) *[]string { return &r.NonResourceURLs },
	} {
		out = merge(out, field)
	}
	slices.SortFunc(out, func(a, b rbacv1.PolicyRule) int { return strings.Compare(key(a), key(b)) })
	return out
}

// explode breaks rules into those of one group, one resource, one verb and at most one name.
func explode(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		out = append(out, validation.BreakdownRule(r)...)
	}
	return out
}

// merge joins the rules that are alike in all but one field.
func merge(rules []rbacv1.PolicyRule, field func(*rbacv1.PolicyRule) *[]string) []rbacv1.PolicyRule {
	index := map[string]int{}
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		values := *field(&r)
		if len(values) == 0 {
			out = append(out, r) // no names is not one name more
			continue
		}
		rest := *r.DeepCopy()
		*field(&rest) = nil
		k := key(rest)
		i, seen := index[k]
		if !seen {
			index[k] = len(out)
			out = append(out, *r.DeepCopy())
			i = len(out) - 1
		}
		into := field(&out[i])
		*into = append(*into, values...)
		slices.Sort(*into)
		*into = slices.Compact(*into)
	}
	return out
}

func key(r rbacv1.PolicyRule) string {
	parts := [][]string{r.APIGroups, r.Resources, r.ResourceNames, r.Verbs, r.NonResourceURLs}
	joined := make([]string, len(parts))
	for i, p := range parts {
		joined[i] = strings.Join(p, "\x01")
	}
	return strings.Join(joined, "\x00")
}

// Line is a rule on one line, as flow-style YAML that can be pasted into a Role.
func Line(r rbacv1.PolicyRule) string {
	var parts []string
	add := func(name string, values []string, always bool) {
		if len(values) > 0 || always {
			parts = append(parts, fmt.Sprintf("%s: [%s]", name, quoted(values)))
		}
	}
	resources := len(r.NonResourceURLs) == 0
	add("apiGroups", r.APIGroups, resources)
	add("resources", r.Resources, resources)
	add("resourceNames", r.ResourceNames, false)
	add("nonResourceURLs", r.NonResourceURLs, false)
	add("verbs", r.Verbs, true)
	return "{" + strings.Join(parts, ", ") + "}"
}

func quoted(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = fmt.Sprintf("%q", v)
	}
	return strings.Join(out, ", ")
}
