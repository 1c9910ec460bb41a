package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// coverage finds the rules that cover an atom. It indexes rules by each of their values; a rule covers an atom if it
// is listed under all of the atom's values.
//
// Memory use is proportional to the size of the rules. A query needs a few lookups and examines at most a few machine
// words for every 64 rules. It never scans the lists in a rule, because untrusted authors determine how long these
// lists are.
//
// The semantics are those of Covers in component-helpers, the function behind the API server's escalation check. That
// function is too slow for long lists, because it compares each atom with every rule. The property tests and "make
// differential" check that both return the same results.
type coverage struct {
	// words is the number of 64-bit words of a bit set with one bit per rule.
	words                                 int
	verbs, groups, resources, names, urls map[string]*posting
	// unnamed lists the rules without resource names.
	unnamed *posting
	// prefixes contains the URLs that end in a star, without the star; byPrefix lists the rules with such a URL.
	prefixes prefixes
	byPrefix map[string]*posting
}

func coverageOf(rules []rbacv1.PolicyRule) coverage {
	c := coverage{
		words: (len(rules) + 63) / 64, unnamed: &posting{}, byPrefix: map[string]*posting{},
		verbs: map[string]*posting{}, groups: map[string]*posting{}, resources: map[string]*posting{}, names: map[string]*posting{}, urls: map[string]*posting{},
	}
	distinct := map[string]bool{}
	for i, r := range rules {
		addAll(c.verbs, r.Verbs, i)
		addAll(c.groups, r.APIGroups, i)
		addAll(c.resources, r.Resources, i)
		addAll(c.names, r.ResourceNames, i)
		addAll(c.urls, r.NonResourceURLs, i)
		if len(r.ResourceNames) == 0 {
			c.unnamed.add(i)
		}
		for _, url := range r.NonResourceURLs {
			if prefix, ok := prefixOf(url); ok {
				distinct[prefix] = true
				addAll(c.byPrefix, []string{prefix}, i)
			}
		}
	}
	c.prefixes = newPrefixes(distinct)
	c.unnamed.finish(c.words)
	for _, postings := range []map[string]*posting{c.verbs, c.groups, c.resources, c.names, c.urls, c.byPrefix} {
		for _, p := range postings {
			p.finish(c.words)
		}
	}
	return c
}

func addAll(to map[string]*posting, values []string, rule int) {
	for _, value := range values {
		p := to[value]
		if p == nil {
			p = &posting{}
			to[value] = p
		}
		p.add(rule)
	}
}

// missing returns the atoms of the wanted rules that no indexed rule covers.
func (c *coverage) missing(wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for atom := range atomsOf(wanted) {
		if !c.covers(atom) {
			out = append(out, atom)
		}
	}
	return out
}

func (c *coverage) covers(atom rbacv1.PolicyRule) bool { return c.coveredBut(noRule, atom) }

// noRule is not the index of any rule.
const noRule = -1

// coveredBut reports whether any rule except the one with index "but" covers the atom.
func (c *coverage) coveredBut(but int, atom rbacv1.PolicyRule) bool {
	covered := false
	c.covering(atom, func(rule int) bool {
		covered = rule != but
		return !covered
	})
	return covered
}

// covering calls visit with the index of each rule that covers the atom, until visit returns false. It may call visit
// more than once for a rule.
func (c *coverage) covering(atom rbacv1.PolicyRule, visit func(rule int) bool) {
	verb := c.ofVerb(atom.Verbs[0])
	if verb.size() == 0 {
		return
	}
	if len(atom.NonResourceURLs) > 0 {
		common(c.words, visit, verb, c.matching(atom.NonResourceURLs[0]), side{c.unnamed})
		return
	}
	name := side{c.unnamed}
	if len(atom.ResourceNames) > 0 {
		name = c.ofName(atom.ResourceNames[0])
	}
	common(c.words, visit, verb, c.ofGroup(atom.APIGroups[0]), c.ofResource(atom.Resources[0]), name)
}

// coveringAll calls visit with the index of each rule that covers all atoms of r, until visit returns false. r must
// have resources or URLs, not both, and at least one value in each field that applies, except ResourceNames. If further
// sides are given, the rules must also be on each of these sides.
func (c *coverage) coveringAll(r rbacv1.PolicyRule, visit func(rule int) bool, but ...side) {
	sides := but
	add := func(values []string, of func(string) side) {
		for _, value := range values {
			sides = append(sides, of(value))
		}
	}
	add(r.Verbs, c.ofVerb)
	add(r.APIGroups, c.ofGroup)
	add(r.Resources, c.ofResource)
	add(r.NonResourceURLs, c.matching)
	add(r.ResourceNames, c.ofName)
	if len(r.ResourceNames) == 0 {
		sides = append(sides, side{c.unnamed})
	}
	common(c.words, visit, sides...)
}

func (c *coverage) ofVerb(verb string) side {
	return side{c.verbs[verb], c.verbs[rbacv1.VerbAll]}
}

func (c *coverage) ofGroup(group string) side {
	return side{c.groups[group], c.groups[rbacv1.APIGroupAll]}
}

func (c *coverage) ofName(name string) side { return side{c.unnamed, c.names[name]} }

func (c *coverage) ofResource(resource string) side {
	out := side{c.resources[resource], c.resources[rbacv1.ResourceAll], nil}
	if _, sub, ok := strings.Cut(resource, "/"); ok {
		out[2] = c.resources["*/"+sub]
	}
	return out
}

// matching returns the rules that contain the URL itself or a pattern that matches it, such as "/api/*".
func (c *coverage) matching(url string) side {
	out := side{c.urls[url]}
	c.prefixes.including(url, func(prefix string) bool {
		out = append(out, c.byPrefix[prefix])
		return true
	})
	return out
}
