package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Minimal is like Compact, but also removes redundant rules, such as a rule for one name if another rule covers all
// names, or a rule for one verb, resource or API group if another rule covers "*". Granting the result is equivalent to
// granting the rules.
//
// If the rules expand to more than MaxAtoms, Minimal first removes those that a single other rule covers. If the
// remaining rules are still too large, it keeps rules that are covered only by several other rules together.
func Minimal(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	rules = oneStar(rules)
	if TooLarge(rules) {
		rules = folded(rules)
	}
	if TooLarge(rules) {
		return rules
	}
	compact := Compact(rules)
	for i := range compact {
		compact[i] = widest(compact[i])
	}
	c := coverageOf(compact)
	var kept []rbacv1.PolicyRule
	for i := range compact {
		for atom := range atomsOf(compact[i : i+1]) {
			if !c.coveredBut(i, atom) {
				kept = append(kept, atom)
			}
		}
	}
	return Compact(kept)
}

// oneStar normalizes URL prefixes. "/a*" and "/a**" mean the same, so each would cover the other and both would be
// removed.
func oneStar(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := slices.Clone(rules)
	for i := range out {
		urls := slices.Clone(out[i].NonResourceURLs)
		for j, url := range urls {
			if strings.HasSuffix(url, "*") {
				urls[j] = strings.TrimRight(url, "*") + "*"
			}
		}
		out[i].NonResourceURLs = urls
	}
	return out
}

// widest drops values that another value of the same field includes, such as all other verbs if there is "*".
func widest(r rbacv1.PolicyRule) rbacv1.PolicyRule {
	for _, field := range []*[]string{&r.Verbs, &r.APIGroups, &r.Resources} {
		if slices.Contains(*field, rbacv1.ResourceAll) {
			*field = []string{rbacv1.ResourceAll}
		}
	}
	suffixes := map[string]bool{}
	stars := map[string]bool{}
	for _, resource := range r.Resources {
		suffixes[resource] = strings.HasPrefix(resource, "*/")
	}
	for _, url := range r.NonResourceURLs {
		if prefix, ok := prefixOf(url); ok {
			stars[prefix] = true
		}
	}
	r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(resource string) bool {
		_, sub, ok := strings.Cut(resource, "/")
		return ok && resource != "*/"+sub && suffixes["*/"+sub]
	})
	all := newPrefixes(stars)
	r.NonResourceURLs = slices.DeleteFunc(slices.Clone(r.NonResourceURLs), func(url string) (included bool) {
		all.including(url, func(prefix string) bool {
			included = prefix+"*" != url
			return !included
		})
		return included
	})
	return r
}
