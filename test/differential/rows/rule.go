package rows

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Rules parses rules in the syntax of Rule.
func Rules(texts ...string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, text := range texts {
		out = append(out, Rule(text))
	}
	return out
}

// Rule parses "<verbs> <groups>:<resources> [<names>]" or "<verbs> <urls>", where each part is a comma-separated list:
// "get,list apps:deployments" or "get :secrets [a,b]" or "get /metrics".
func Rule(text string) rbacv1.PolicyRule {
	verbs, rest, _ := strings.Cut(text, " ")
	r := rbacv1.PolicyRule{Verbs: strings.Split(verbs, ",")}
	rest, names, named := strings.Cut(rest, " ")
	if named {
		r.ResourceNames = strings.Split(strings.Trim(names, "[]"), ",")
	}
	groups, resources, ok := strings.Cut(rest, ":")
	if !ok {
		r.NonResourceURLs = strings.Split(rest, ",")
		return r
	}
	r.APIGroups, r.Resources = strings.Split(groups, ","), strings.Split(resources, ",")
	return r
}
