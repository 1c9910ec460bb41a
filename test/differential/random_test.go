package differential

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// fromEnvironment returns the number in an environment variable, or a default.
func fromEnvironment(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// dice draws from small sets, so that existing and requested permissions often match.
type dice struct{ *rand.Rand }

func newDice(seed, stream int) dice {
	return dice{rand.New(rand.NewPCG(uint64(seed), uint64(stream)))}
}

func (d dice) oneIn(n int) bool { return d.IntN(n) == 0 }

// some draws at least one and at most the given number of values. Earlier values are more likely.
func (d dice) some(most int, from []string) []string {
	out := make([]string, 1+d.IntN(most))
	for i := range out {
		out[i] = d.one(from)
	}
	return out
}

func (d dice) one(from []string) string {
	return from[min(d.IntN(len(from)), d.IntN(len(from)))]
}

// vocabulary is the set of values that rules consist of. Common values come first.
type vocabulary struct{ verbs, groups, resources, names, urls []string }

// anything contains all values that are compared in a special way, including unusual and empty ones.
var anything = vocabulary{
	verbs:  []string{"get", "*", "list", "create", "watch", "update", "deletecollection", "escalate", "bind", "GET", "", " get", "impersonate"},
	groups: []string{"", "apps", "*", rbacv1.GroupName, "acme.io", "Apps", "apps/v1"},
	resources: []string{
		"pods", "pods/log", "*", "deployments", "*/log", "deployments/scale", "roles", "*/scale", "clusterroles", "pods/*", "*/*",
		"secrets", "serviceaccounts/token", "pods/log/x", "*/log/x", "Pods", "", "pods/", "/log", "*/", "/",
	},
	names: []string{"a", "b", "c", "", "A", "*"},
	urls:  []string{"/metrics", "*", "/metrics/*", "/metrics*", "/metrics/a", "/healthz", "/healthz/*", "/*", "**", "/metrics**", "", "metrics", "/a*b", "/a"},
}

// rule returns a rule for resources or for URLs.
func (d dice) rule(v vocabulary) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: d.some(3, v.verbs)}
	if d.oneIn(5) {
		r.NonResourceURLs = d.some(3, v.urls)
		return r
	}
	r.APIGroups, r.Resources = d.some(2, v.groups), d.some(3, v.resources)
	if d.oneIn(3) {
		r.ResourceNames = d.some(3, v.names)
	}
	return r
}

// oddRule returns a rule in which required fields may be missing. Such a rule cannot be stored in a role and grants nothing.
func (d dice) oddRule(v vocabulary) rbacv1.PolicyRule {
	r := d.rule(v)
	switch d.IntN(30) {
	case 0:
		r.Verbs = nil
	case 1:
		r.APIGroups = nil
	case 2:
		r.Resources = nil
	}
	return r
}

func (d dice) rules(v vocabulary, most int) []rbacv1.PolicyRule {
	out := make([]rbacv1.PolicyRule, d.IntN(most+1))
	for i := range out {
		out[i] = d.oddRule(v)
	}
	return out
}

// partOf returns existing rules, parts of them, and sometimes other rules, because independent random rules are almost
// never covered.
func (d dice) partOf(v vocabulary, granted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for range 1 + d.IntN(3) {
		if len(granted) == 0 || d.oneIn(12) {
			r := d.oddRule(v)
			if d.oneIn(3) { // a rule with both resources and URLs is checked for escalation before it is rejected as invalid
				r.NonResourceURLs = d.some(2, v.urls)
			}
			out = append(out, r)
			continue
		}
		r := granted[d.IntN(len(granted))]
		r = rbacv1.PolicyRule{
			Verbs: d.subset(v.verbs, r.Verbs), APIGroups: d.subset(v.groups, r.APIGroups), Resources: d.subset(v.resources, r.Resources),
			ResourceNames: d.subset(v.names, r.ResourceNames), NonResourceURLs: d.subset(v.urls, r.NonResourceURLs),
		}
		if len(r.Resources) > 0 && len(r.ResourceNames) == 0 && d.oneIn(4) {
			r.ResourceNames = d.some(2, v.names)
		}
		out = append(out, r)
	}
	return out
}

// subset draws from values and sometimes adds others from all. The result is empty only if values is empty.
func (d dice) subset(all, values []string) []string {
	var out []string
	for _, value := range values {
		switch {
		case d.oneIn(40):
			out = append(out, d.one(all))
		case value == "*" && d.oneIn(2):
			out = append(out, d.some(2, all)...)
		case !d.oneIn(3):
			out = append(out, value)
		}
	}
	if len(out) == 0 && len(values) > 0 {
		out = append(out, values[d.IntN(len(values))])
	}
	return slices.Compact(out)
}
