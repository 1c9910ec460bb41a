package rbac

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	// MaxAtoms bounds the number of (group, resource, name, verb) combinations that one query may expand to.
	MaxAtoms = 50_000
	// maxAtomBytes bounds the total length of the strings in these combinations: keys and lines are made of each. One group of 60 KB with
	// 50,000 combinations would take 2.7 GiB. Ordinary combinations have about 60 bytes.
	maxAtomBytes = 8 << 20
)

// Missing returns the parts of the wanted rules that the granted rules do not cover, compacted and sorted. If the
// wanted rules expand to more than MaxAtoms, it returns them unchanged.
func Missing(granted, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return NewSet(granted).Missing(wanted)
}

// Set is a list of rules prepared for many queries. The zero value has no rules.
type Set struct{ coverage coverage }

// NewSet returns a Set of the rules. Callers must not change the rules after the call.
func NewSet(granted []rbacv1.PolicyRule) Set { return Set{coverageOf(granted)} }

// Missing is like the function Missing, with the rules of the set as the granted rules.
func (s Set) Missing(wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if TooLarge(wanted) {
		return wanted
	}
	return Compact(s.coverage.missing(wanted))
}

// Covers reports whether the set covers all wanted rules. It returns false if they expand to more than MaxAtoms.
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

// Using returns the indexes of the rules that cover some part of the wanted rules, or none if the wanted rules expand
// to more than MaxAtoms.
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

// TooLarge reports whether the rules together expand to more than MaxAtoms combinations, or to combinations that are too long.
func TooLarge(rules []rbacv1.PolicyRule) bool { return Size(rules) > MaxAtoms }

// Size returns the number of combinations that the rules expand to. It stops counting above MaxAtoms, and returns more than that if the
// combinations are too long together.
func Size(rules []rbacv1.PolicyRule) int {
	total, length := 0, 0
	for i := 0; i < len(rules) && total <= MaxAtoms; i++ {
		total += atoms(rules[i])
		if length += lengthOfAtoms(rules[i]); length > maxAtomBytes {
			return MaxAtoms + 1
		}
	}
	return total
}

// MaxLength bounds the Length of rules that are not TooLarge.
const MaxLength = maxAtomBytes

// Length returns the total length of the strings in all combinations of the rules. It does not count far above MaxLength.
func Length(rules []rbacv1.PolicyRule) (total int) {
	for i := 0; i < len(rules) && total <= maxAtomBytes; i++ {
		total += lengthOfAtoms(rules[i])
	}
	return total
}

// lengthOfAtoms returns the total length of the strings in all combinations of a rule. It does not count above maxAtomBytes.
func lengthOfAtoms(r rbacv1.PolicyRule) int {
	return lengthOfProduct(r.APIGroups, r.Resources, r.Verbs, r.ResourceNames) + lengthOfProduct(r.NonResourceURLs, r.Verbs)
}

// lengthOfProduct returns the total length of the strings in the combinations of one string of each list. An empty list of names, the
// fourth, has one combination.
func lengthOfProduct(lists ...[]string) int {
	counts, length := 1, 0
	for i, list := range lists {
		own := 0
		for _, s := range list {
			own = min(own+len(s), maxAtomBytes+1)
		}
		n := len(list)
		if i == names && n == 0 {
			n = 1
		}
		// Both factors are at most about 8 million.
		length = min(length*n+own*counts, maxAtomBytes+1)
		counts = min(counts*n, maxAtomBytes+1)
	}
	return min(length, maxAtomBytes+1)
}

// names is the index of resourceNames among the lists of a rule for resources.
const names = 3

// atoms returns the number of combinations that a rule expands to. Products are limited to MaxAtoms+1, because
// multiplying the lengths of four long lists can overflow an int.
func atoms(r rbacv1.PolicyRule) int {
	if isUnknown(&r) {
		return MaxAtoms + 1
	}
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

// Compact merges rules into fewer equivalent ones, first by verbs, then by names, resources and API groups, and sorts
// the result. If the rules expand to more than MaxAtoms, it returns them unchanged.
func Compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if TooLarge(rules) {
		return rules
	}
	out := Atoms(rules)
	for _, field := range fields() {
		out = merge(out, field)
	}
	return sorted(out)
}

// fields returns functions that select the fields of a rule, in the order in which Compact merges rules by them.
func fields() []func(*rbacv1.PolicyRule) *[]string {
	return []func(*rbacv1.PolicyRule) *[]string{
		func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs },
		func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames },
		func(r *rbacv1.PolicyRule) *[]string { return &r.Resources },
		func(r *rbacv1.PolicyRule) *[]string { return &r.APIGroups },
		func(r *rbacv1.PolicyRule) *[]string { return &r.NonResourceURLs },
	}
}

// sorted returns deep copies of the rules, ordered by content.
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

// Atoms splits rules into rules for one group, one resource, one verb and at most one name, or for one URL and one
// verb. It returns none if there are more than MaxAtoms. The results share memory with the rules and must not be
// changed.
func Atoms(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if TooLarge(rules) {
		return nil
	}
	return slices.Collect(atomsOf(rules))
}

// atomsOf yields the atoms of each rule, as BreakdownRule in component-helpers returns them.
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
	names := [][]string{nil} // one atom for all names
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

// each yields every value as a list with one element, without spare capacity, so that append copies the list.
func each(values []string) iter.Seq[[]string] { return slices.Chunk(values, 1) }

// merge joins the rules that differ only in the given field. The lists of the rules must be sorted, as those of atoms
// and plain rules are.
func merge(rules []rbacv1.PolicyRule, field func(*rbacv1.PolicyRule) *[]string) []rbacv1.PolicyRule {
	index := make(map[string]int, len(rules))
	var out []rbacv1.PolicyRule
	var buffer []byte
	for _, r := range rules {
		values := *field(&r)
		if len(values) == 0 {
			out = append(out, r) // there is nothing to merge; an empty list of names means all names
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

// appendKey appends a key that is unique to the rule. It is faster than key.
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

// key returns a string that is unique to the rule. It quotes values to distinguish a rule without names (all objects)
// from a rule with an empty name (requests without a name).
func key(r rbacv1.PolicyRule) string {
	return fmt.Sprintf("%q", [][]string{r.APIGroups, r.Resources, r.ResourceNames, r.Verbs, r.NonResourceURLs})
}

// Line formats a rule on one line, as flow-style YAML that can be pasted into a Role.
func Line(r rbacv1.PolicyRule) string {
	var parts []string
	add := func(name string, values []string, always bool) {
		if len(values) > 0 || always {
			parts = append(parts, fmt.Sprintf("%s: [%s]", name, Quoted(values)))
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

// Quoted returns the values in quotes, separated by commas.
func Quoted(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = fmt.Sprintf("%q", v)
	}
	return strings.Join(out, ", ")
}

// Word returns a value of a rule as it is if it consists of characters that ordinary values contain; otherwise, in quotes.
func Word(value string) string {
	const others = "-._*/:~"
	odd := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(others, r)
	}
	if value != "" && !strings.ContainsFunc(value, odd) {
		return value
	}
	return fmt.Sprintf("%q", value)
}
