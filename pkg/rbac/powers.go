package rbac

import (
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// ClusterAdmin is the name of the default ClusterRole that allows everything.
const ClusterAdmin = "cluster-admin"

// Powers describes those of the cluster-wide rules that are equivalent to cluster-admin: a subject with such a rule can
// obtain every permission. If a rule already allows every verb on every resource, Powers returns only that.
//
// The verb escalate counts even if it is restricted to a name, because any rules can be written into the named role.
// The verbs bind and impersonate, if restricted to a name, give only the permissions of the named object, so they count
// only for the ClusterRole cluster-admin and the group system:masters. Likewise, creating tokens counts only for all ServiceAccounts,
// and approving certificates only for all signers and for those that issue client certificates for the API server.
func Powers(rules []rbacv1.PolicyRule) []string { return describe(rules, powers()) }

// Escalations describes those of the rules, in any scope, with which a subject can obtain permissions that it does not have: the verbs
// escalate and bind on roles, impersonate, including its constrained forms, and create on the tokens of ServiceAccounts, with or
// without resource names.
func Escalations(rules []rbacv1.PolicyRule) []string { return describe(rules, escalations()) }

func describe(rules []rbacv1.PolicyRule, powers []power) []string {
	var out []string
	for _, r := range rules {
		if len(r.ResourceNames) == 0 && hasStar(r.Verbs) && hasStar(r.APIGroups) && hasStar(r.Resources) {
			return []string{"every verb on every resource"}
		}
		for _, p := range powers {
			if p.in(r) {
				out = append(out, fmt.Sprintf("%q on %s", p.verb, p.resource))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func hasStar(values []string) bool { return slices.Contains(values, rbacv1.VerbAll) }

// power is a verb on a resource that lets a subject obtain permissions.
type power struct {
	verb, group, resource string
	// names are the resource names for which a rule counts. If there are none, only rules without resource names count.
	names []string
	// anyName is true if rules for any resource name count.
	anyName bool
	// forms is a prefix of verbs that also count, or "".
	forms string
}

func powers() []power {
	return []power{
		{verb: verbEscalate, group: rbacv1.GroupName, resource: "clusterroles", anyName: true},
		{verb: verbEscalate, group: rbacv1.GroupName, resource: "roles", anyName: true},
		{verb: verbBind, group: rbacv1.GroupName, resource: "clusterroles", names: []string{ClusterAdmin}},
		{verb: verbImpersonate, resource: "users"},
		{verb: verbImpersonate, resource: "groups", names: []string{"system:masters"}},
		{verb: verbImpersonate, resource: "serviceaccounts"},
		{verb: "create", resource: "serviceaccounts/token"},
		{verb: "create", resource: "nodes/proxy"},
		{verb: "approve", group: "certificates.k8s.io", resource: "signers",
			names: []string{"kubernetes.io/kube-apiserver-client", "kubernetes.io/*"}},
	}
}

func escalations() []power {
	out := []power{{verb: "create", resource: "serviceaccounts/token", anyName: true}}
	for _, resource := range []string{"clusterroles", "roles"} {
		for _, verb := range []string{verbBind, verbEscalate} {
			out = append(out, power{verb: verb, group: rbacv1.GroupName, resource: resource, anyName: true})
		}
	}
	for _, group := range []string{"", authenticationv1.GroupName} {
		for _, resource := range []string{"groups", "serviceaccounts", "uids", "userextras", "users"} {
			out = append(out, power{verb: verbImpersonate, group: group, resource: resource, anyName: true, forms: verbImpersonate + ":"})
		}
	}
	return out
}

func (p power) in(r rbacv1.PolicyRule) bool {
	named := len(r.ResourceNames) == 0 || p.anyName ||
		slices.ContainsFunc(r.ResourceNames, func(name string) bool { return slices.Contains(p.names, name) })
	verb := includes(r.Verbs, p.verb) || p.forms != "" && slices.ContainsFunc(r.Verbs, func(v string) bool { return strings.HasPrefix(v, p.forms) })
	resource := includes(r.Resources, p.resource) || slices.ContainsFunc(r.Resources, func(v string) bool { return strings.HasPrefix(v, p.resource+"/") && p.resource == "userextras" })
	if _, sub, ok := strings.Cut(p.resource, "/"); ok && slices.Contains(r.Resources, "*/"+sub) {
		resource = true
	}
	return named && verb && includes(r.APIGroups, p.group) && resource
}

func includes(values []string, value string) bool {
	return hasStar(values) || slices.Contains(values, value)
}
