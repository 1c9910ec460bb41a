package rbac

import (
	"math/bits"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// coverage finds the held rule that covers an atom: for every value it knows the rules that say it, as a set,
// and only what all sets of an atom have in common is looked at. However many rules are held, and however
// alike they are, an atom costs a few words for every 64 of them.
//
// That a rule found so does cover the atom is said by Covers alone, the API server's own function.
type coverage struct {
	rules                                 []rbacv1.PolicyRule
	verbs, groups, resources, names, urls map[string]set
	// unnamed are the rules for objects of all names.
	unnamed set
	// prefixes are the urls that end in a star.
	prefixes []string
}

func coverageOf(rules []rbacv1.PolicyRule) coverage {
	c := coverage{
		rules: rules,
		verbs: map[string]set{}, groups: map[string]set{}, resources: map[string]set{}, names: map[string]set{}, urls: map[string]set{},
	}
	for i, r := range rules {
		addAll(c.verbs, r.Verbs, i)
		addAll(c.groups, r.APIGroups, i)
		addAll(c.resources, r.Resources, i)
		addAll(c.names, r.ResourceNames, i)
		addAll(c.urls, r.NonResourceURLs, i)
		if len(r.ResourceNames) == 0 {
			c.unnamed = c.unnamed.with(i)
		}
	}
	for url := range c.urls {
		if strings.HasSuffix(url, "*") {
			c.prefixes = append(c.prefixes, url)
		}
	}
	return c
}

func addAll(to map[string]set, values []string, i int) {
	for _, value := range values {
		to[value] = to[value].with(i)
	}
}

// missing are the atoms of the wanted rules that no held rule covers.
func (c *coverage) missing(wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for atom := range atomsOf(wanted) {
		if !c.covers(atom) {
			out = append(out, atom)
		}
	}
	return out
}

func (c *coverage) covers(atom rbacv1.PolicyRule) bool { return c.coveredBut(nobody, atom) }

// nobody is the number of no rule.
const nobody = -1

// coveredBut says whether a rule other than the one of a number covers the atom.
func (c *coverage) coveredBut(but int, atom rbacv1.PolicyRule) bool {
	verb := either{c.verbs[atom.Verbs[0]], c.verbs[rbacv1.VerbAll]}
	if len(atom.NonResourceURLs) > 0 {
		return c.common(but, atom, verb, c.matching(atom.NonResourceURLs[0]))
	}
	group := either{c.groups[atom.APIGroups[0]], c.groups[rbacv1.APIGroupAll]}
	name := either{c.unnamed}
	if len(atom.ResourceNames) > 0 {
		name[1] = c.names[atom.ResourceNames[0]]
	}
	resource := either{c.resources[atom.Resources[0]], c.resources[rbacv1.ResourceAll]}
	if _, sub, ok := strings.Cut(atom.Resources[0], "/"); ok {
		resource[2] = c.resources["*/"+sub]
	}
	return c.common(but, atom, verb, group, resource, name)
}

// matching are the rules on the URL: those that say it, and those that say what it begins with.
func (c *coverage) matching(url string) either {
	out := either{c.urls[url]}
	for _, p := range c.prefixes {
		if strings.HasPrefix(url, strings.TrimRight(p, "*")) {
			out[1] = out[1].union(c.urls[p])
		}
	}
	return out
}

// common says whether one of the rules that are in all of the sets, bar one, covers the atom.
func (c *coverage) common(but int, atom rbacv1.PolicyRule, sets ...either) bool {
	for w := range (len(c.rules) + 63) / 64 {
		word := ^uint64(0)
		for _, s := range sets {
			word &= s.word(w)
		}
		for ; word != 0; word &= word - 1 {
			i := w*64 + bits.TrailingZeros64(word)
			if i == but {
				continue
			}
			if ok, _ := validation.Covers(c.rules[i:i+1], []rbacv1.PolicyRule{atom}); ok {
				return true
			}
		}
	}
	return false
}

// set has the numbers of rules, as bits. It ends with its greatest.
type set []uint64

func (s set) with(i int) set {
	for len(s) <= i/64 {
		s = append(s, 0)
	}
	s[i/64] |= 1 << (i % 64)
	return s
}

// union adds to s in place, unless it is too short.
func (s set) union(more set) set {
	out := s
	for len(out) < len(more) {
		out = append(out, 0)
	}
	for w, word := range more {
		out[w] |= word
	}
	return out
}

// either is what is in one of the sets.
type either [3]set

func (e either) word(w int) uint64 {
	var out uint64
	for _, s := range e {
		if w < len(s) {
			out |= s[w]
		}
	}
	return out
}
