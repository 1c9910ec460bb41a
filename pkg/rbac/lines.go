package rbac

import (
	"iter"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A message shows a few KB of the lines of rules. Two roles of ordinary size can expand to hundreds of MiB of lines, because each line
// repeats the words that its rule has in the other lists.
const (
	maxLines     = 1_000
	maxLineBytes = 256 << 10
)

// Lines describes rules that are missing in a scope, in the form "in namespace <ns> <rule>" or "cluster-wide <rule>". It splits a rule
// until each line has at most limit bytes, as Split does, and returns no further lines after 1,000, or 256 KiB.
func Lines(namespace string, rules []rbacv1.PolicyRule, limit int) (out []string) {
	size := 0
	for piece := range pieces(rules, limit) {
		line := Where(namespace) + " " + Line(piece)
		if size += len(line); len(out) == maxLines || size > maxLineBytes && len(out) > 0 {
			break
		}
		out = append(out, line)
	}
	return out
}

// Where returns "in namespace <ns>" or "cluster-wide".
func Where(namespace string) string {
	if namespace == ClusterScope {
		return "cluster-wide"
	}
	return "in namespace " + namespace
}

// Split splits each rule in half at its longest list until the Line of each part has at most limit bytes or no list can
// be halved. It does not split a rule that is TooLarge.
func Split(rules []rbacv1.PolicyRule, limit int) []rbacv1.PolicyRule {
	return slices.Collect(pieces(rules, limit))
}

// pieces yields the rules that Split returns.
func pieces(rules []rbacv1.PolicyRule, limit int) iter.Seq[rbacv1.PolicyRule] {
	return func(yield func(rbacv1.PolicyRule) bool) {
		for i := range rules {
			fits := func(r rbacv1.PolicyRule) bool { return len(Line(r)) <= limit }
			if TooLarge(rules[i : i+1]) {
				fits = func(rbacv1.PolicyRule) bool { return true }
			}
			for piece := range Halve(rules[i], fits) {
				if !yield(piece) {
					return
				}
			}
		}
	}
}

// Halve splits a rule in half at its longest list until each part fits or has no list that can be halved.
func Halve(rule rbacv1.PolicyRule, fits func(rbacv1.PolicyRule) bool) iter.Seq[rbacv1.PolicyRule] {
	return func(yield func(rbacv1.PolicyRule) bool) { halve(rule, fits, yield) }
}

func halve(rule rbacv1.PolicyRule, fits func(rbacv1.PolicyRule) bool, yield func(rbacv1.PolicyRule) bool) bool {
	longest := &rule.Resources
	for _, list := range []*[]string{&rule.ResourceNames, &rule.APIGroups, &rule.NonResourceURLs, &rule.Verbs} {
		if len(*list) > len(*longest) {
			longest = list
		}
	}
	all := *longest
	if len(all) < 2 || fits(rule) {
		return yield(rule)
	}
	for _, half := range [][]string{all[:len(all)/2], all[len(all)/2:]} {
		*longest = half
		if !halve(rule, fits, yield) {
			return false
		}
	}
	return true
}
