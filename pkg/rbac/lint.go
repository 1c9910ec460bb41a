package rbac

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Lint describes rules that grant less or more than they appear to, in a Role of the namespace or, for ClusterScope, in
// a ClusterRole. The API server accepts such rules, so the descriptions are advice to the author and do not affect the
// verdict. The result is sorted and has no duplicates.
func Lint(namespace string, rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		for _, resource := range r.Resources {
			if strings.HasSuffix(resource, "/*") {
				out = append(out, fmt.Sprintf("resource %q matches nothing: name the subresources, or use \"*\"", resource))
			}
		}
		for _, group := range r.APIGroups {
			if strings.Contains(group, "/") {
				out = append(out, fmt.Sprintf("apiGroup %q matches nothing: API groups do not include a version", group))
			}
		}
		for _, verb := range r.Verbs {
			if verb != strings.ToLower(strings.TrimSpace(verb)) {
				out = append(out, fmt.Sprintf("verb %q matches nothing: verbs are lowercase", verb))
			}
		}
		out = append(out, lintNames(r)...)
		if namespace != ClusterScope {
			out = append(out, lintScope(r)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func lintNames(r rbacv1.PolicyRule) []string {
	var out []string
	if slices.Contains(r.ResourceNames, "") {
		out = append(out, fmt.Sprintf("resourceName \"\" of %s matches requests without a name, such as list and create", strings.Join(r.Resources, ", ")))
	}
	if len(r.ResourceNames) > 0 && slices.Contains(r.Verbs, "create") {
		for _, resource := range r.Resources {
			if !strings.Contains(resource, "/") { // requests to create a subresource include a name
				out = append(out, fmt.Sprintf("create on %s with resourceNames allows server-side apply but not POST", resource))
			}
		}
	}
	return out
}

// clusterScoped lists, by API group, the well-known cluster-scoped resources, to which a Role cannot grant access. It
// does not include namespaces, because a request for a Namespace is authorized in that namespace.
var clusterScoped = map[string][]string{
	"":                             {"nodes", "persistentvolumes"},
	"admissionregistration.k8s.io": {"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations"},
	"apiextensions.k8s.io":         {"customresourcedefinitions"},
	"apiregistration.k8s.io":       {"apiservices"},
	"authentication.k8s.io":        {"tokenreviews"},
	"authorization.k8s.io":         {"selfsubjectaccessreviews", "subjectaccessreviews"},
	"certificates.k8s.io":          {"certificatesigningrequests"},
	"networking.k8s.io":            {"ingressclasses"},
	"node.k8s.io":                  {"runtimeclasses"},
	rbacv1.GroupName:               {"clusterrolebindings", "clusterroles"},
	"scheduling.k8s.io":            {"priorityclasses"},
	"storage.k8s.io":               {"csidrivers", "csinodes", "storageclasses", "volumeattachments"},
}

func lintScope(r rbacv1.PolicyRule) []string {
	var out []string
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			kind, _, _ := strings.Cut(resource, "/")
			if slices.Contains(clusterScoped[group], kind) && !onlyBinds(r, resource) {
				out = append(out, fmt.Sprintf("%s is cluster-scoped: a namespaced rule grants no access to it", resource))
			}
		}
	}
	return out
}

// onlyBinds reports whether the rule only allows binding ClusterRoles. A Role can grant this, because binding a
// ClusterRole in a namespace is authorized in that namespace.
func onlyBinds(r rbacv1.PolicyRule, resource string) bool {
	return resource == "clusterroles" && slices.Equal(r.Verbs, []string{verbBind})
}
