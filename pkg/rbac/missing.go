package rbac

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// MaxAtoms bounds the (group, resource, name, verb) combinations that one question may expand to.
const MaxAtoms = 50_000

// Missing returns what of the wanted rules the held ones do not cover: compacted, sorted, and empty
// where all is covered. Of more than MaxAtoms nothing counts as covered: they are returned as they are.
func Missing(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return NewSet(held).Missing(wanted)
}

// Set is rules that are held, made ready to be asked about many times. The zero value is nothing held.
type Set struct{ coverage coverage }

// NewSet makes a Set. The rules must not be changed afterwards.
func NewSet(held []rbacv1.PolicyRule) Set { return Set{coverageOf(held)} }

// Missing is the function of that name for the rules of the set.
func (s Set) Missing(wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if TooLarge(wanted) {
		return wanted
	}
	return Compact(s.coverage.missing(wanted))
}

// Covers says whether nothing is missing; of more than MaxAtoms it says no.
func (s Set) Covers(wanted []rbacv1.PolicyRule) bool {
	if TooLarge(wanted) {
		return false
	}
	for atom := range atomsOf(wanted) {
		if !s.coverage.covers(atom) {
			return false
		}
	}
	return true
}

// Using returns, by number, which rules of the set cover some part of the wanted rules; of more than MaxAtoms it
// returns none.
func (s Set) Using(wanted []rbacv1.PolicyRule) map[int]bool {
	used := map[int]bool{}
	for _, atom := range Atoms(wanted) {
		s.coverage.covering(atom, func(rule int) bool {
			used[rule] = true
			return true
		})
	}
	return used
}

// TooLarge says whether rules expand to more than MaxAtoms combinations together.
func TooLarge(rules []rbacv1.PolicyRule) bool { return Size(rules) > MaxAtoms }

// Size is how many combinations rules expand to together. It stops counting above MaxAtoms.
func Size(rules []rbacv1.PolicyRule) int {
	total := 0
	for i := 0; i < len(rules) && total <= MaxAtoms; i++ {
		total += atoms(rules[i])
	}
	return total
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
	for _, field := range fields() {
		out = merge(out, field)
	}
	return sorted(out)
}

// fields are the fields of a rule in the order in which rules are merged.
func fields() []func(*rbacv1.PolicyRule) *[]string {
	return []func(*rbacv1.PolicyRule) *[]string{
		func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs },
		func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames },
		func(r *rbacv1.PolicyRule) *[]string { return &r.Resources },
		func(r *rbacv1.PolicyRule) *[]string { return &r.APIGroups },
		func(r *rbacv1.PolicyRule) *[]string { return &r.NonResourceURLs },
	}
}

// sorted orders rules by what they say, and makes their lists their own.
func sorted(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	type keyed struct {
		key  string
		rule rbacv1.PolicyRule
	}
	var byKey []keyed
	for _, r := range rules {
		byKey = append(byKey, keyed{key(r), *r.DeepCopy()})
	}
	slices.SortFunc(byKey, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	var out []rbacv1.PolicyRule
	for _, k := range byKey {
		out = append(out, k.rule)
	}
	return out
}

// Atoms breaks rules into those of one group, one resource, one verb and at most one name; of more than
// MaxAtoms it returns none. Their fields are parts of the rules', and must not be changed.
func Atoms(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if TooLarge(rules) {
		return nil
	}
	return explode(rules)
}

func explode(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return slices.Collect(atomsOf(rules)) }

// atomsOf yields what BreakdownRule of component-helpers makes of each rule.
func atomsOf(rules []rbacv1.PolicyRule) iter.Seq[rbacv1.PolicyRule] {
	return func(yield func(rbacv1.PolicyRule) bool) {
		for _, r := range rules {
			if !onResources(r, yield) || !onURLs(r, yield) {
				return
			}
		}
	}
}

func onResources(r rbacv1.PolicyRule, yield func(rbacv1.PolicyRule) bool) bool {
	names := [][]string{nil} // one atom for objects of all names
	if len(r.ResourceNames) > 0 {
		names = slices.Collect(each(r.ResourceNames))
	}
	for group := range each(r.APIGroups) {
		for resource := range each(r.Resources) {
			for verb := range each(r.Verbs) {
				for _, name := range names {
					if !yield(rbacv1.PolicyRule{APIGroups: group, Resources: resource, Verbs: verb, ResourceNames: name}) {
						return false
					}
				}
			}
		}
	}
	return true
}

func onURLs(r rbacv1.PolicyRule, yield func(rbacv1.PolicyRule) bool) bool {
	for url := range each(r.NonResourceURLs) {
		for verb := range each(r.Verbs) {
			if !yield(rbacv1.PolicyRule{NonResourceURLs: url, Verbs: verb}) {
				return false
			}
		}
	}
	return true
}

// each yields every value as a list of its own, to which nothing can be appended in place.
func each(values []string) iter.Seq[[]string] { return slices.Chunk(values, 1) }

// merge joins the rules that are alike in all but one field. It takes the rules' own lists, and changes
// none that it has not made.
func merge(rules []rbacv1.PolicyRule, field func(*rbacv1.PolicyRule) *[]string) []rbacv1.PolicyRule {
	index := make(map[string]int, len(rules))
	var out []rbacv1.PolicyRule
	var buffer []byte
	for _, r := range rules {
		values := *field(&r)
		if len(values) == 0 {
			out = append(out, r) // no names is not one name more
			continue
		}
		rest := r
		*field(&rest) = nil
		buffer = appendKey(buffer[:0], rest)
		i, seen := index[string(buffer)]
		if !seen {
			index[string(buffer)] = len(out)
			out = append(out, r)
			continue
		}
		into := field(&out[i])
		*into = append(*into, values...)
	}
	for i := range out {
		if into := field(&out[i]); len(*into) > 1 {
			slices.Sort(*into)
			*into = slices.Compact(*into)
		}
	}
	return out
}

// appendKey tells any two rules apart, and is quick.
func appendKey(to []byte, r rbacv1.PolicyRule) []byte {
	for _, list := range [...][]string{r.APIGroups, r.Resources, r.ResourceNames, r.Verbs, r.NonResourceURLs} {
		to = binary.AppendUvarint(to, uint64(len(list)))
		for _, value := range list {
			to = binary.AppendUvarint(to, uint64(len(value)))
			to = append(to, value...)
		}
	}
	return to
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
