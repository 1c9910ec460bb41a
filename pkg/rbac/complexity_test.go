package rbac

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// adversarial returns functions that build granted and wanted rules with about n values, in shapes that make nested
// scans quadratic.
func adversarial() map[string]func(n int) (granted, wanted []rbacv1.PolicyRule) {
	return map[string]func(n int) (granted, wanted []rbacv1.PolicyRule){
		"many names": func(n int) (granted, wanted []rbacv1.PolicyRule) {
			one := on("get", "", "secrets", values("n", n)...)
			return []rbacv1.PolicyRule{one}, []rbacv1.PolicyRule{one}
		},
		"many names, none in common": func(n int) (granted, wanted []rbacv1.PolicyRule) {
			return []rbacv1.PolicyRule{on("get", "", "secrets", values("n", n)...)}, []rbacv1.PolicyRule{on("get", "", "secrets", values("m", n)...)}
		},
		"many verbs and many resources": func(n int) (granted, wanted []rbacv1.PolicyRule) {
			// The number of verbs multiplied by the number of resources is n.
			verbs, resources := values("v", n/100), values("r", 100)
			wanted = []rbacv1.PolicyRule{{APIGroups: []string{"g"}, Verbs: verbs, Resources: resources}}
			for _, verb := range verbs {
				granted = append(granted, rbacv1.PolicyRule{APIGroups: []string{"g"}, Verbs: []string{verb}, Resources: resources})
			}
			return granted, wanted
		},
		"many rules": func(n int) (granted, wanted []rbacv1.PolicyRule) {
			for i := range n {
				granted = append(granted, on("get", "", "secrets", fmt.Sprint("n", i)))
				wanted = append(wanted, on("get", "", "secrets", fmt.Sprint("n", n-i)))
			}
			return granted, wanted
		},
		"near misses": func(n int) (granted, wanted []rbacv1.PolicyRule) {
			// Half of the granted rules match a wanted atom except for its resource, the other half except for its
			// verb.
			for i := range n / 2 {
				granted = append(granted, on("get", "", fmt.Sprint("r", i)), on("list", "", "secrets", "a"))
			}
			return granted, []rbacv1.PolicyRule{on("get", "", "secrets", values("n", n-1)...), on("get", "", "secrets", "a")}
		},
		"URLs with a common prefix": func(n int) (granted, wanted []rbacv1.PolicyRule) {
			for i := range n {
				granted = append(granted, rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{fmt.Sprintf("/%s/%d/*", strings.Repeat("a", 40), i)}})
			}
			urls := values("/"+strings.Repeat("a", 40)+"/x", n)
			return granted, []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: urls}}
		},
		"URLs in one rule": func(n int) (granted, wanted []rbacv1.PolicyRule) {
			var stars, urls []string
			for i := range n {
				stars, urls = append(stars, fmt.Sprint("/a", i, "*")), append(urls, fmt.Sprint("/b", i))
			}
			return []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: stars}}, []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: urls}}
		},
		"rules within rules": func(n int) (granted, wanted []rbacv1.PolicyRule) {
			// Many granted rules cover each wanted rule, and the last granted rule covers all of them.
			for i := range n / 2 {
				granted = append(granted, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", fmt.Sprint("v", i)}})
				wanted = append(wanted, on("get", "", "pods", fmt.Sprint("n", i)))
			}
			return append(granted, on("*", "", "pods")), wanted
		},
		"subresources": func(n int) (granted, wanted []rbacv1.PolicyRule) {
			var resources, stars []string
			for i := range n {
				resources, stars = append(resources, fmt.Sprint("r/s", i)), append(stars, fmt.Sprint("*/t", i))
			}
			return []rbacv1.PolicyRule{on("get", "", "x"), {APIGroups: []string{""}, Verbs: []string{"get"}, Resources: stars}},
				[]rbacv1.PolicyRule{{APIGroups: []string{""}, Verbs: []string{"get"}, Resources: resources}}
		},
	}
}

func on(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func values(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return out
}

// TestEachQueryVisitsFewRules checks that the size of the index is proportional to the size of the rules, and that a
// query visits only rules that cover the atom.
func TestEachQueryVisitsFewRules(t *testing.T) {
	for shape, of := range adversarial() {
		t.Run(shape, func(t *testing.T) {
			granted, wanted := of(20_000)
			c := coverageOf(granted)
			values, kept := 0, 0
			for _, r := range granted {
				values += len(r.Verbs) + len(r.APIGroups) + len(r.Resources) + len(r.ResourceNames) + 2*len(r.NonResourceURLs) + 1
			}
			for _, postings := range []map[string]*posting{c.verbs, c.groups, c.resources, c.names, c.urls, c.byPrefix, {"": c.unnamed}} {
				for _, p := range postings {
					kept += len(p.list) + len(p.bits)
				}
			}
			require.LessOrEqual(t, kept, 2*values, "memory is proportional to the rules")
			visited := 0
			for atom := range atomsOf(wanted) {
				c.covering(atom, func(int) bool {
					visited++
					return false
				})
			}
			require.LessOrEqual(t, visited, len(slices.Collect(atomsOf(wanted))), "only rules that cover an atom are visited")
		})
	}
}

// TestCoverageOfManyRulesMatchesTheAPIServer uses enough rules that 64 of them are compared at a time.
func TestCoverageOfManyRulesMatchesTheAPIServer(t *testing.T) {
	for seed := range int64(20) {
		random := rand.New(rand.NewSource(seed))
		var granted, wanted []rbacv1.PolicyRule
		for range 20 + random.Intn(100) {
			for _, r := range randomRules(random) {
				// Near misses: replace one value of most rules, so that they almost cover a wanted rule.
				if spare := fmt.Sprint("spare", random.Intn(50)); len(r.ResourceNames) > 0 && random.Intn(3) > 0 {
					r.ResourceNames = []string{spare}
				} else if random.Intn(3) > 0 {
					r.Verbs = []string{spare}
				}
				granted = append(granted, r)
			}
			if len(wanted) < 50 {
				wanted = append(wanted, randomRules(random)...)
			}
		}
		set := NewSet(granted)
		for _, atom := range Atoms(wanted) {
			one := []rbacv1.PolicyRule{atom}
			want, _ := validation.Covers(granted, one)
			require.Equal(t, want, set.Covers(one), "seed %d: %s", seed, Line(atom))
		}
	}
}
