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
// where all is covered. Of more than MaxAtoms nothing counts as covered: they are returned as they are.
func Missing(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return NewSet(held).Missing(wanted)
}

// Set is rules that are held, made ready to be asked about many times.
type Set struct{ index index }

// NewSet makes a Set. The rules must not be changed afterwards.
func NewSet(held []rbacv1.PolicyRule) Set { return Set{indexOf(held)} }

// Missing is the function of that name for the rules of the set.
func (s Set) Missing(wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if TooLarge(wanted) {
		return wanted
	}
	var missing []rbacv1.PolicyRule
	for _, atom := range explode(wanted) {
		if !s.index.covers(atom) {
			missing = append(missing, atom)
		}
	}
	return Compact(missing)
}

// index finds the held rules that may cover an atom by its verb and group, so that thousands of rules
// need not all be held against thousands of others.
type index map[indexKey][]rbacv1.PolicyRule

type indexKey struct{ verb, group string }

// urls stands for the group of rules about URLs, which have none.
const urls = "/"

func indexOf(rules []rbacv1.PolicyRule) index {
	out := index{}
	for _, r := range rules {
		groups := r.APIGroups
		if len(r.NonResourceURLs) > 0 {
			groups = append(slices.Clone(groups), urls)
		}
		for _, verb := range r.Verbs {
			for _, group := range groups {
				k := indexKey{verb, group}
				out[k] = append(out[k], r)
			}
		}
	}
	return out
}

func (x index) covers(atom rbacv1.PolicyRule) bool {
	groups := []string{urls}
	if len(atom.NonResourceURLs) == 0 {
		groups = []string{atom.APIGroups[0], rbacv1.APIGroupAll}
	}
	for _, verb := range []string{atom.Verbs[0], rbacv1.VerbAll} {
		for _, group := range groups {
			if ok, _ := validation.Covers(x[indexKey{verb, group}], []rbacv1.PolicyRule{atom}); ok {
				return true
			}
		}
	}
	return false
}

// Validate says, as the API server does, what is wrong with a rule that is to go into a Role
// (namespaced) or a ClusterRole; nil where nothing is. A rule that fails here covers nothing and is
// covered by nothing.
func Validate(rule rbacv1.PolicyRule, namespaced bool) error {
	if atoms(rule) > MaxAtoms {
		return fmt.Errorf("a rule expands to more than %d combinations", MaxAtoms)
	}
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
	return nil
}

// TooLarge says whether rules expand to more than MaxAtoms combinations together.
func TooLarge(rules []rbacv1.PolicyRule) bool {
	total := 0
	for _, r := range rules {
		if total += atoms(r); total > MaxAtoms {
			return true
		}
	}
	return false
}

// atoms counts what a rule expands to. It stops above MaxAtoms: the product of four long lists is more
// than an int can hold.
func atoms(r rbacv1.PolicyRule) int {
	product := func(lengths ...int) int {
		n := 1
		for _, length := range lengths {
			n = min(n*length, MaxAtoms+1)
		}
		return n
	}
	return product(len(r.APIGroups), len(r.Resources), len(r.Verbs), max(1, len(r.ResourceNames))) +
		product(len(r.NonResourceURLs), len(r.Verbs))
}

// Compact merges rules that together say the same in fewer words, first by verbs, then by names,
// then by resources, then by API groups, and sorts the result. More than MaxAtoms are left as they are.
func Compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if TooLarge(rules) {
		return rules
	}
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

// Atoms breaks rules into those of one group, one resource, one verb and at most one name; of more than
// MaxAtoms it returns none.
func Atoms(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if TooLarge(rules) {
		return nil
	}
	return explode(rules)
}

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

// key quotes, so that no names (all objects) and one empty name (requests without one) differ.
func key(r rbacv1.PolicyRule) string {
	return fmt.Sprintf("%q", [][]string{r.APIGroups, r.Resources, r.ResourceNames, r.Verbs, r.NonResourceURLs})
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
