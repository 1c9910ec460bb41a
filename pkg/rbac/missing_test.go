package rbac

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/test/differential/rows"
)

func rule(text string) rbacv1.PolicyRule { return rows.Rule(text) }

func rules(texts ...string) []rbacv1.PolicyRule { return rows.Rules(texts...) }

// The numbers in the row names are those of the rows in test/differential/rows.
func TestMissingMatchesTheEscalationCheckOfTheAPIServer(t *testing.T) {
	for _, row := range []struct {
		name            string
		granted, wanted []rbacv1.PolicyRule
		missing         []rbacv1.PolicyRule
	}{
		{"1 all verbs cover each verb", rules("* :pods"), rules("get,list :pods"), nil},
		{"2 a list of verbs is not all verbs", rules("get,list,watch,create,update,patch,delete,deletecollection :pods"), rules("* :pods"), rules("* :pods")},
		{"3 all groups cover each group", rules("get *:deployments"), rules("get apps:deployments"), nil},
		{"4 a list of groups is not all groups", rules("get ,apps:deployments"), rules("get *:deployments"), rules("get *:deployments")},
		{"5 all resources include subresources", rules("get :*"), rules("get :pods/log,pods/exec,serviceaccounts/token"), nil},
		{"6 a resource is not its subresource", rules("get :pods"), rules("get :pods/log"), rules("get :pods/log")},
		{"7 pods/* is not a wildcard", rules("get :pods/*"), rules("get :pods/log"), rules("get :pods/log")},
		{"8 */log covers pods/log", rules("get :*/log"), rules("get :pods/log"), nil},
		{"9 */scale covers itself", rules("get apps:*/scale"), rules("get apps:*/scale"), nil},
		{"10 a list of subresources is not */scale", rules("get apps:deployments/scale,statefulsets/scale"), rules("get apps:*/scale"), rules("get apps:*/scale")},
		{"11 */* is literal", rules("get :*/*"), rules("get :pods/log"), rules("get :pods/log")},
		{"12 */* covers pods/*", rules("get :*/*"), rules("get :pods/*"), nil},
		{"13 a list of subresources is not pods/*", rules("get :pods,pods/log,pods/exec"), rules("get :pods/*"), rules("get :pods/*")},
		{"14 a rule without names covers each name", rules("get :secrets"), rules("get :secrets [a]"), nil},
		{"15 a list of names covers each of them", rules("get :secrets [a,b]"), rules("get :secrets [a]"), nil},
		{"16 a rule with names is not one without names", rules("get :secrets [a]"), rules("get :secrets"), rules("get :secrets")},
		{"17 names may come from two rules", rules("get :secrets [a]", "get :secrets [b]"), rules("get :secrets [a,b]"), nil},
		{"18 verbs may come from two rules", rules("get :pods", "list :pods"), rules("get,list :pods"), nil},
		{"19 one rule grants a name, another all names", rules("get :secrets [a]", "list :secrets"), rules("get,list :secrets [a]"), nil},
		{"38 a URL covers itself", rules("get /metrics"), rules("get /metrics"), nil},
		{"39 a trailing star is a prefix", rules("get /metrics*"), rules("get /metrics/cadvisor,/metricsfoo"), nil},
		{"40 the prefix includes its slash", rules("get /healthz/*"), rules("get /healthz"), rules("get /healthz")},
		{"41 a URL is not a prefix", rules("get /healthz"), rules("get /healthz/*"), rules("get /healthz/*")},
		{"42 /* does not cover *", rules("get /*"), rules("get *"), rules("get *")},
		{"43 verbs matter for URLs", rules("get *"), rules("post *"), rules("post *")},
		{"46 create with a name covers itself", rules("create :secrets [x]"), rules("create :secrets [x]"), nil},
		{"47 create covers create with a name", rules("create :secrets"), rules("create :secrets [x]"), nil},
		{"48 delete is not deletecollection", rules("delete :pods"), rules("deletecollection :pods"), rules("deletecollection :pods")},
		{"49 list is not watch", rules("list :pods"), rules("watch :pods"), rules("watch :pods")},
		{"50 the empty name is a name", rules("get :secrets [a]"), rules("get :secrets []"), rules("get :secrets []")},
		{"51 verbs are case-sensitive", rules("get :pods"), rules("GET :pods"), rules("GET :pods")},
		{"60 resources do not cover URLs", rules("* *:*"), rules("* *:*", "* *"), rules("* *")},
		{"66 all resources of a group include subresources", rules("* acme.io:*"), rules("update acme.io:widgets/status"), nil},
		{"67 a resource is not its finalizers", rules("update apps:deployments"), rules("update apps:deployments/finalizers"), rules("update apps:deployments/finalizers")},
		{"68 impersonating one account is not impersonating all", rules("impersonate :serviceaccounts [x]"), rules("impersonate :serviceaccounts"), rules("impersonate :serviceaccounts")},
		{"36 an empty list of rules requires nothing", nil, nil, nil},
		{"only the missing part of a rule is returned", rules("get :pods"), rules("get,list :pods,secrets"), rules("list :pods", "get,list :secrets")},
		{"missing rules are returned once", nil, rules("get :pods", "get,list :pods"), rules("get,list :pods")},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.missing, Missing(row.granted, row.wanted))
			covered, _ := validation.Covers(row.granted, row.wanted)
			require.Equal(t, covered, len(row.missing) == 0, "the API server's own function agrees")
		})
	}
}

func TestMissingAboveMaxAtomsReturnsAllRules(t *testing.T) {
	all := rules("* *:*")
	require.Empty(t, Missing(all, []rbacv1.PolicyRule{wide(36)}))
	one := []rbacv1.PolicyRule{wide(37)}
	require.Equal(t, one, Missing(all, one))
	require.Equal(t, one, Compact(one))
	two := []rbacv1.PolicyRule{wide(30), wide(30)}
	require.Equal(t, two, Missing(all, two))
}

// wide returns a rule that expands to n*n*n combinations.
func wide(n int) rbacv1.PolicyRule {
	var values []string
	for i := range n {
		values = append(values, fmt.Sprint("v", i))
	}
	return rbacv1.PolicyRule{APIGroups: values, Resources: values, Verbs: values}
}

func TestValidateRejectsWhatTheAPIServerRejects(t *testing.T) {
	const overflow = 1 << 16 // its fourth power overflows to 0 in 64 bits
	huge := make([]string, overflow)
	for _, row := range []struct {
		name       string
		rule       rbacv1.PolicyRule
		namespaced bool
		want       string
	}{
		{"a rule on resources", rule("get :pods [a]"), true, ""},
		{"a rule on URLs in the cluster", rule("get /metrics"), false, ""},
		{"33 no verbs", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}}, true, "has no verbs"},
		{"34 no apiGroups", rbacv1.PolicyRule{Resources: []string{"pods"}, Verbs: []string{"get"}}, true, "has no apiGroups"},
		{"35 no resources", rbacv1.PolicyRule{APIGroups: []string{""}, Verbs: []string{"get"}}, true, "has no resources"},
		{"an empty rule", rbacv1.PolicyRule{}, false, "has no verbs"},
		{"37 resources and URLs", rbacv1.PolicyRule{Resources: []string{"pods"}, NonResourceURLs: []string{"/a"}, Verbs: []string{"get"}}, false, "mixes"},
		{"37 names and URLs", rbacv1.PolicyRule{ResourceNames: []string{"x"}, NonResourceURLs: []string{"/a"}, Verbs: []string{"get"}}, false, "mixes"},
		{"45 URLs in a namespace", rule("get /metrics"), true, "only for the whole cluster"},
		{"69 too many combinations", wide(37), true, "more than 50000 combinations"},
		{"69 too many URLs", rbacv1.PolicyRule{NonResourceURLs: make([]string, 251), Verbs: make([]string, 200)}, false, "more than 50000 combinations"},
		{"69 more than an int can count", rbacv1.PolicyRule{APIGroups: huge, Resources: huge, Verbs: huge, ResourceNames: huge}, true, "more than 50000 combinations"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := Validate(row.rule, row.namespaced)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestCompactMergesRules(t *testing.T) {
	for _, row := range []struct {
		name     string
		in, want []rbacv1.PolicyRule
	}{
		{"no rules", nil, nil},
		{"verbs", rules("list :pods", "get :pods"), rules("get,list :pods")},
		{"names", rules("get :pods [b]", "get :pods [a]"), rules("get :pods [a,b]")},
		{"all names are not merged with a name", rules("get :pods", "get :pods [a]"), rules("get :pods [a]", "get :pods")},
		{"all names are not merged with the empty name", rules("get :pods", "list :pods []"), rules("list :pods []", "get :pods")},
		{"resources", rules("get :pods", "get :secrets"), rules("get :pods,secrets")},
		{"groups", rules("get b:pods", "get a:pods"), rules("get a,b:pods")},
		{"URLs", rules("get /b", "get /a"), rules("get /a,/b")},
		{"the core group comes first and URLs last", rules("get /z", "get apps:a", "list :b"), rules("list :b", "get apps:a", "get /z")},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, Compact(row.in))
		})
	}
}

func TestCompactIsEquivalent(t *testing.T) {
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		in := randomRules(random)
		out := Compact(in)
		ok, missing := validation.Covers(out, in)
		require.True(t, ok, "seed %d lost %v", seed, missing)
		ok, missing = validation.Covers(in, out)
		require.True(t, ok, "seed %d added %v", seed, missing)
		require.ElementsMatch(t, distinct(in), distinct(out), "seed %d: the same combinations", seed)
		require.Equal(t, out, Compact(out), "seed %d: idempotent", seed)
		random.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
		require.Equal(t, out, Compact(in), "seed %d: independent of the order", seed)
	}
}

func TestCoverageIsReflexiveAndMonotone(t *testing.T) {
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		wanted, granted, more := randomRules(random), randomRules(random), randomRules(random)
		require.Empty(t, Missing(wanted, wanted), "seed %d", seed)
		missing := Missing(granted, wanted)
		require.Empty(t, Missing(append(granted, missing...), wanted), "seed %d: granting the missing rules is sufficient", seed)
		require.Empty(t, Missing(missing, Missing(append(granted, more...), wanted)), "seed %d: more permissions never add missing rules", seed)
		covered, _ := validation.Covers(granted, wanted)
		require.Equal(t, covered, len(missing) == 0, "seed %d: the API server's own function agrees", seed)
	}
}

// distinct returns the keys of all combinations, each once.
func distinct(in []rbacv1.PolicyRule) []string {
	seen := map[string]bool{}
	var out []string
	for _, r := range Atoms(in) {
		if k := key(r); !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

func randomRules(random *rand.Rand) []rbacv1.PolicyRule {
	pick := func(least int, from ...string) []string {
		random.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		return from[:least+random.Intn(len(from)-least+1)]
	}
	var out []rbacv1.PolicyRule
	for range 1 + random.Intn(5) {
		r := rbacv1.PolicyRule{Verbs: pick(1, "get", "list", "*")}
		if random.Intn(5) == 0 {
			r.NonResourceURLs = pick(1, "/a", "/a/*", "/a/**", "*", "**", "")
		} else {
			r.APIGroups, r.Resources = pick(1, "", "apps", "*"), pick(1, "pods", "pods/log", "*/log", "")
			r.ResourceNames = pick(0, "", "x", "y")
		}
		out = append(out, r)
	}
	return out
}

func TestLineRoundTripsThroughYAML(t *testing.T) {
	for name, r := range map[string]rbacv1.PolicyRule{
		"resources":                  rule("get,list ,apps:pods,pods/log [a]"),
		"URLs":                       rule("get /metrics,/a*"),
		"words that YAML interprets": rule("on,null,1 ~:true,- [{},[]"),
		"quotes and controls":        rule("get \"a\\:p\x07\x7f\u2028\u00e9 [\t]"),
	} {
		t.Run(name, func(t *testing.T) {
			var got rbacv1.PolicyRule
			require.NoError(t, yaml.UnmarshalStrict([]byte(Line(r)), &got))
			require.Equal(t, r, got)
			require.NotContains(t, Line(r), "\n")
		})
	}
	for seed := range int64(100) {
		for _, r := range randomRules(rand.New(rand.NewSource(seed))) {
			var got rbacv1.PolicyRule
			require.NoError(t, yaml.UnmarshalStrict([]byte("- " + Line(r))[2:], &got))
			require.Equal(t, Compact([]rbacv1.PolicyRule{r}), Compact([]rbacv1.PolicyRule{got}))
		}
	}
}

func BenchmarkMissing(b *testing.B) {
	var granted, wanted []rbacv1.PolicyRule
	for i := range 5_000 {
		granted = append(granted, rule(fmt.Sprintf("get group%d:things [n%d]", i%100, i)))
		wanted = append(wanted, rule(fmt.Sprintf("get group%d:things [n%d]", i%100, i)))
	}
	b.Run("5000-rules", func(b *testing.B) {
		for b.Loop() {
			require.Empty(b, Missing(granted, wanted))
		}
	})
}
