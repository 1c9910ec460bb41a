package webhook

import (
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Demand is what an account must hold so that its operator may intercept something: nobody intercepts
// what it could not itself write and read (security model).
type Demand struct {
	// Namespaced rules must be held in every target namespace of the OperatorGroup.
	Namespaced []rbacv1.PolicyRule
	// Cluster rules must be held in the whole cluster.
	Cluster []rbacv1.PolicyRule
	// Identities says that the operator may make something run as any ServiceAccount of a target, so that the
	// account must hold what each of them holds.
	Identities bool
}

// Intercepts is what the rules of an admission webhook demand. Of a resource that may be of either scope
// only the objects in namespaces are demanded: without the right to the others they are not intercepted
// ([Desired]).
func Intercepts(d *operatorsv1alpha1.WebhookDescription, scopes Scopes) Demand {
	out := Demand{Identities: runsAsAnybody(d)}
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

// part is a rule for resources whose objects live in the same place.
type part struct {
	rule  admissionregistrationv1.RuleWithOperations
	scope Scope
}

// split divides a rule by where the objects of its resources live, if it is for both.
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

// parts makes rules again, one for the groups with the same resources.
func parts(rule admissionregistrationv1.RuleWithOperations, s Scope, resources map[string][]string) []part {
	var out []part
	for _, group := range rule.APIGroups {
		if len(resources[group]) == 0 {
			continue
		}
		same := func(p part) bool { return slices.Equal(p.rule.Resources, resources[group]) }
		if i := slices.IndexFunc(out, same); i >= 0 {
			if !slices.Contains(out[i].rule.APIGroups, group) {
				out[i].rule.APIGroups = append(out[i].rule.APIGroups, group)
			}
			continue
		}
		p := part{rule: *rule.DeepCopy(), scope: s}
		p.rule.APIGroups, p.rule.Resources = []string{group}, resources[group]
		out = append(out, p)
	}
	return out
}

// demand puts a rule of admission in terms of RBAC: the verbs that lead to it, and to read what is shown, the object
// as it was before included. What goes through a subresource is the resource's own object.
func (p part) demand() []rbacv1.PolicyRule {
	write := rbacv1.PolicyRule{APIGroups: slices.Clone(p.rule.APIGroups)}
	read := rbacv1.PolicyRule{APIGroups: slices.Clone(p.rule.APIGroups), Verbs: []string{"get"}}
	subresources := false
	for _, r := range p.rule.Resources {
		subresources = subresources || strings.Contains(r, "/")
		held := rbacResource(r)
		base, _, _ := strings.Cut(held, "/")
		write.Resources, read.Resources = append(write.Resources, held), append(read.Resources, base)
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
		*list = slices.Clone(*list)
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return rule
}

// rbacResource is the resource of RBAC that holds all that one of an admission rule does. What RBAC
// cannot express (all subresources of one resource) is held only by whoever holds all.
func rbacResource(resource string) string {
	base, sub, has := strings.Cut(resource, "/")
	switch {
	case base == "*" && !has, sub == "*":
		return rbacv1.ResourceAll
	}
	return resource // also "*/scale", which RBAC knows
}

// verbs are those of RBAC that lead to an operation. One connects to a subresource by get or create.
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

// bounded are the rules as they are written for a bounded group. Cluster-scoped objects stay out unless
// the demand says that the account holds them; holds answers for those that may be of either scope. A wildcard
// never reaches those of Kubernetes' own: a rule has to name them.
func bounded(d *operatorsv1alpha1.WebhookDescription, scopes Scopes, holds func(...rbacv1.PolicyRule) bool) []admissionregistrationv1.RuleWithOperations {
	var out []admissionregistrationv1.RuleWithOperations
	for _, rule := range d.Rules {
		for _, p := range split(rule, scopes) {
			switch {
			case p.scope == Cluster:
				p.rule.Scope = scopePointer(admissionregistrationv1.ClusterScope)
			case p.scope == Namespaced || reachesAdministrators(p.rule) || !holds(p.demand()...):
				p.rule.Scope = scopePointer(admissionregistrationv1.NamespacedScope)
			}
			out = append(out, p.rule)
		}
	}
	return out
}

// reachesAdministrators says of a wildcard that there is something of Kubernetes' own among the objects of the whole
// cluster which it would reach.
func reachesAdministrators(rule admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rule.APIGroups, func(name string) bool { return len(clusterScoped[strings.ToLower(name)]) > 0 })
}

func scopePointer(s admissionregistrationv1.ScopeType) *admissionregistrationv1.ScopeType { return &s }
