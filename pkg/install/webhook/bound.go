package webhook

import (
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
)

// Demand lists the permissions that an account needs before its operator may intercept requests: an operator may
// intercept only objects that its account can read and write (docs/adr/0013).
type Demand struct {
	// Namespaced rules are required in every target namespace of the OperatorGroup.
	Namespaced []rbacv1.PolicyRule
	// Cluster rules are required cluster-wide.
	Cluster []rbacv1.PolicyRule
	// Identities is true if the operator can make workloads run as any ServiceAccount of a target namespace. The account
	// then needs the permissions of all these ServiceAccounts.
	Identities bool
}

// Intercepts returns the permissions that the rules of an admission webhook require. If the scope of a resource is not
// known, only permissions for namespaced objects are required: the webhook intercepts cluster-scoped objects only if
// the account has permissions for them ([Desired]).
func Intercepts(d *operatorsv1alpha1.WebhookDescription, scopes Scopes) Demand {
	out := Demand{Identities: runsAsAnyServiceAccount(d)}
	for _, rule := range d.Rules {
		for _, part := range split(rule, scopes) {
			if part.scope == Cluster {
				out.Cluster = append(out.Cluster, part.demand()...)
			} else {
				out.Namespaced = append(out.Namespaced, part.demand()...)
			}
		}
	}
	return out
}

// part is a part of a rule whose resources have the same scope.
type part struct {
	rule  admissionregistrationv1.RuleWithOperations
	scope Scope
}

// split divides a rule into parts whose resources have the same scope.
func split(rule admissionregistrationv1.RuleWithOperations, scopes Scopes) []part {
	by := map[Scope]map[string][]string{}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			s := scopeOf(rule, group, resource, scopes)
			if by[s] == nil {
				by[s] = map[string][]string{}
			}
			by[s][group] = append(by[s][group], resource)
		}
	}
	var out []part
	for _, s := range []Scope{Namespaced, Either, Cluster} {
		out = append(out, parts(rule, s, by[s])...)
	}
	return out
}

func scopeOf(rule admissionregistrationv1.RuleWithOperations, group, resource string, scopes Scopes) Scope {
	if rule.Scope != nil && *rule.Scope == admissionregistrationv1.NamespacedScope {
		return Namespaced
	}
	if rule.Scope != nil && *rule.Scope == admissionregistrationv1.ClusterScope {
		return Cluster
	}
	base, _, _ := strings.Cut(resource, "/")
	if base == "*" {
		return Either
	}
	return scopes(group, base)
}

// parts returns the parts of a rule for one scope. Groups with the same resources share a part.
func parts(rule admissionregistrationv1.RuleWithOperations, s Scope, resources map[string][]string) []part {
	var out []part
	seen := map[string]bool{}
	for _, group := range rule.APIGroups {
		if len(resources[group]) == 0 || seen[group] {
			continue
		}
		seen[group] = true
		same := func(p part) bool { return slices.Equal(p.rule.Resources, resources[group]) }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].rule.APIGroups = append(out[i].rule.APIGroups, group)
			continue
		}
		p := part{rule: *rule.DeepCopy(), scope: s}
		p.rule.APIGroups, p.rule.Resources = []string{group}, resources[group]
		out = append(out, p)
	}
	return out
}

// demand translates an admission rule to RBAC rules: the verbs that trigger the webhook, and get for the objects that the webhook
// receives, including the old object. For a subresource, get is required on the resource, whose object the request can contain.
func (p part) demand() []rbacv1.PolicyRule {
	write := rbacv1.PolicyRule{APIGroups: slices.Clone(p.rule.APIGroups)}
	read := rbacv1.PolicyRule{APIGroups: slices.Clone(p.rule.APIGroups), Verbs: []string{"get"}}
	subresources := false
	for _, r := range p.rule.Resources {
		subresources = subresources || strings.Contains(r, "/")
		resource := rbacResource(r)
		base, _, _ := strings.Cut(resource, "/")
		write.Resources, read.Resources = append(write.Resources, resource), append(read.Resources, base)
	}
	for _, o := range p.rule.Operations {
		write.Verbs = append(write.Verbs, verbs(o, subresources)...)
	}
	out := []rbacv1.PolicyRule{sorted(write), sorted(read)}
	if slices.Equal(out[0].Resources, out[1].Resources) {
		write.Verbs = append(write.Verbs, "get")
		out = []rbacv1.PolicyRule{sorted(write)}
	}
	return out
}

func sorted(rule rbacv1.PolicyRule) rbacv1.PolicyRule {
	for _, list := range []*[]string{&rule.APIGroups, &rule.Resources, &rule.Verbs} {
		*list = slices.Compact(slices.Sorted(slices.Values(*list)))
	}
	return rule
}

// rbacResource returns the RBAC resource that covers a resource of an admission rule. RBAC cannot express all
// subresources of one resource; such a rule requires all resources.
func rbacResource(resource string) string {
	base, sub, has := strings.Cut(resource, "/")
	switch {
	case base == "*" && !has, sub == "*":
		return rbacv1.ResourceAll
	}
	return resource // RBAC also supports "*/scale"
}

// verbs returns the RBAC verbs that trigger an admission operation. Both get and create can connect to a subresource.
func verbs(o admissionregistrationv1.OperationType, subresources bool) []string {
	switch o {
	case admissionregistrationv1.Create:
		return []string{"create"}
	case admissionregistrationv1.Update:
		return []string{"update", "patch"}
	case admissionregistrationv1.Delete:
		return []string{"delete"}
	case admissionregistrationv1.Connect:
		return []string{"create", "get"}
	}
	all := []string{"create", "update", "patch", "delete"}
	if subresources {
		all = append(all, "get")
	}
	return all
}

// bounded returns the rules as they are written for a bounded group. If the scope of a resource is not known,
// cluster-scoped objects are excluded unless holds reports that the account has the required permissions for them. A
// wildcard never includes cluster-scoped objects of Kubernetes itself: a rule must name them.
func bounded(d *operatorsv1alpha1.WebhookDescription, scopes Scopes, holds func(...rbacv1.PolicyRule) bool) []admissionregistrationv1.RuleWithOperations {
	var out []admissionregistrationv1.RuleWithOperations
	for _, rule := range d.Rules {
		for _, p := range split(rule, scopes) {
			switch {
			case p.scope == Cluster:
				p.rule.Scope = ptr.To(admissionregistrationv1.ClusterScope)
			case p.scope == Namespaced || reachesAdministrators(p.rule) || !holds(p.demand()...):
				p.rule.Scope = ptr.To(admissionregistrationv1.NamespacedScope)
			}
			out = append(out, p.rule)
		}
	}
	return out
}

// reachesAdministrators reports whether a rule names an API group with cluster-scoped objects of Kubernetes itself,
// which a resource wildcard would include.
func reachesAdministrators(rule admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rule.APIGroups, func(name string) bool { return len(clusterScoped[strings.ToLower(name)]) > 0 })
}
