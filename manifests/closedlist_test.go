package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/pkg/lib/names"
)

const (
	rbacGroup      = "rbac.authorization.k8s.io"
	operatorsGroup = "operators.coreos.com"
)

// write is one verb that a controller identity has on one resource, cluster-wide.
type write struct{ group, resource, verb string }

// allowed is the closed list of the security model: every cluster-wide write that the controller identities may have. An
// additional line requires a decision record in docs/adr.
func allowed(w write) bool {
	switch w.group {
	case operatorsGroup:
		return allowedOfOLM(w)
	case "", "events.k8s.io":
		resources := []string{"events"}
		if w.group == "" {
			resources = append(resources, "configmaps") // reports of plans: docs/adr/0007
		}
		return slices.Contains(resources, w.resource) && slices.Contains([]string{"create", "patch"}, w.verb)
	case "authorization.k8s.io":
		return w.resource == "subjectaccessreviews" && w.verb == "create"
	}
	return false
}

// allowedOfOLM is allowed for the kinds of OLM.
func allowedOfOLM(w write) bool {
	resource, subresource, _ := strings.Cut(w.resource, "/")
	written := []string{"catalogsources", "clusterserviceversions", "installplans", "operatorgroups", "subscriptions"}
	switch subresource {
	case "status":
		return slices.Contains(written, resource) && (w.verb == "patch" || w.verb == "update")
	case "finalizers":
		return slices.Contains(written, resource) && w.verb == "update"
	case "":
		inert := []string{"installplans", "subscriptions"}
		return w.verb == "create" && slices.Contains(inert, resource) ||
			w == write{operatorsGroup, "clusterserviceversions", "patch"} // finalizers: docs/adr/0006
	}
	return false
}

func TestControllerIdentitiesHaveOnlyTheClosedList(t *testing.T) {
	// The profile compat adds only one permission: to request tokens of all ServiceAccounts.
	mintAny := write{resource: "serviceaccounts/token", verb: "create"}
	for profile, more := range map[string][]write{ProfileBounded: nil, ProfileCompat: {mintAny}} {
		t.Run(profile, func(t *testing.T) {
			objs := render(t, profile)
			rules := clusterRules(t, objs)
			require.NotEmpty(t, rules)

			var extra []write
			for _, w := range writes(rules) {
				if !allowed(w) {
					extra = append(extra, w)
				}
			}
			require.Equal(t, more, slices.Compact(extra))
			requireNoWildcard(t, rules)
		})
	}
}

func TestControllerIdentitiesHaveNoWritesThatGrantPower(t *testing.T) {
	for _, w := range []write{
		{rbacGroup, "clusterroles", "create"},
		{rbacGroup, "rolebindings", "bind"},
		{rbacGroup, "roles", "escalate"},
		{"apps", "deployments", "patch"},
		{"", "secrets", "create"},
		{"", "services", "update"},
		{"", "configmaps", "update"},
		{"", "configmaps", "delete"},
		{"", "namespaces", "patch"},
		{"", "pods", "create"},
		{"", "users", "impersonate"},
		{"apiextensions.k8s.io", "customresourcedefinitions", "create"},
		{"admissionregistration.k8s.io", "validatingwebhookconfigurations", "create"},
		{"apiregistration.k8s.io", "apiservices", "delete"},
		{operatorsGroup, "clusterserviceversions", "update"},
		{operatorsGroup, "installplans", "patch"},
		{operatorsGroup, "operators", "create"},
		{operatorsGroup, "operatorconditions", "create"},
		{operatorsGroup, "operators/status", "patch"},
		{operatorsGroup, "operatorconditions/status", "patch"},
		{operatorsGroup, "*/status", "*"},
	} {
		require.False(t, allowed(w), "%v", w)
	}
}

func TestControllerIdentitiesReadNoSecrets(t *testing.T) {
	for _, profile := range Profiles() {
		for _, rule := range clusterRules(t, render(t, profile)) {
			require.NotContains(t, rule.Resources, "secrets", profile)
			if slices.Contains(rule.Resources, "configmaps") {
				require.NotContains(t, rule.Verbs, "list", profile)
				require.NotContains(t, rule.Verbs, "watch", profile)
			}
		}
	}
}

// The permissions of each program in Remit's two namespaces, role by role; an additional line also requires a decision record. In
// Remit's namespace, every rule has resourceNames, because the other program's token and Lease are there.
func TestControllerIdentitiesHaveMinimalPermissionsInTheirNamespaces(t *testing.T) {
	const own, catalogs = names.DefaultNamespace + "/", names.DefaultCatalogNamespace + "/"
	for _, profile := range Profiles() {
		got := map[string][]rbacv1.PolicyRule{}
		objs := render(t, profile)
		for _, obj := range ofKind(objs, "Role") {
			key := obj.GetNamespace() + "/" + obj.GetName()
			got[key] = convert[rbacv1.Role](t, obj).Rules
			if strings.HasPrefix(key, own) {
				for _, rule := range got[key] {
					require.NotEmpty(t, rule.ResourceNames, key)
				}
			}
		}
		home := func(lease string) []rbacv1.PolicyRule {
			return []rbacv1.PolicyRule{
				{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{lease}, Verbs: []string{"get", "update"}},
				// One Secret: docs/adr/0019.
				{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{names.SecretProof}, Verbs: []string{"create", "get", "list", "patch", "watch"}},
			}
		}
		rule := func(resources []string, verbs ...string) rbacv1.PolicyRule {
			return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: resources, Verbs: verbs}
		}
		require.Equal(t, map[string][]rbacv1.PolicyRule{
			own + "remit-catalog": home("remit-catalog"),
			own + "remit-olm":     home("remit-olm"),
			catalogs + "remit-catalog-registries": {
				rule([]string{"pods"}, "create", "delete", "list", "patch", "watch"),
				rule([]string{"serviceaccounts", "services"}, "create", "delete", "patch"),
			},
			catalogs + "remit-catalog-content": {rule([]string{"configmaps"}, "watch"), rule([]string{"secrets"}, "get")},
		}, got, profile)
		for _, obj := range ofKind(objs, "RoleBinding") {
			binding := convert[rbacv1.RoleBinding](t, obj)
			require.Equal(t, obj.GetName(), binding.RoleRef.Name)
			require.Len(t, binding.Subjects, 1, "a Role is of one program")
			require.True(t, strings.HasPrefix(binding.Name, binding.Subjects[0].Name))
		}
	}
}

// The rule for the Secret has its name, and verbs that respect resourceNames.
func TestControllerIdentitiesWriteOneSecret(t *testing.T) {
	for _, profile := range Profiles() {
		for _, obj := range ofKind(render(t, profile), "Role") {
			for _, rule := range convert[rbacv1.Role](t, obj).Rules {
				if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"get"}) {
					require.Equal(t, []string{names.SecretProof}, rule.ResourceNames, profile)
					require.Equal(t, []string{"secrets"}, rule.Resources, profile)
				}
			}
		}
	}
}

// clusterRules collects the rules of all ClusterRoles that are bound to a controller identity.
func clusterRules(t *testing.T, objs []*unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	bound := boundToPrograms(t, objs)
	for _, obj := range ofKind(objs, "ClusterRole") {
		if !slices.Contains(bound, obj.GetName()) {
			continue
		}
		bound = slices.DeleteFunc(bound, func(name string) bool { return name == obj.GetName() })
		rules = append(rules, convert[rbacv1.ClusterRole](t, obj).Rules...)
	}
	require.Empty(t, bound, "Remit's programs are bound to ClusterRoles that are not of this installation")
	return rules
}

func boundToPrograms(t *testing.T, objs []*unstructured.Unstructured) []string {
	t.Helper()
	programs := []string{names.ServiceAccountCatalog, names.ServiceAccountOLM}
	var roles []string
	for _, obj := range ofKind(objs, "ClusterRoleBinding") {
		binding := convert[rbacv1.ClusterRoleBinding](t, obj)
		if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind != rbacv1.ServiceAccountKind || slices.Contains(programs, s.Name)
		}) {
			roles = append(roles, binding.RoleRef.Name)
		}
	}
	return roles
}

func writes(rules []rbacv1.PolicyRule) []write {
	var all []write
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if !slices.Contains([]string{"get", "list", "watch"}, verb) {
						all = append(all, write{group, resource, verb})
					}
				}
			}
		}
	}
	return all
}

func requireNoWildcard(t *testing.T, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, rule := range rules {
		require.NotContains(t, rule.Verbs, rbacv1.VerbAll)
		require.NotContains(t, rule.Resources, rbacv1.ResourceAll)
		require.NotContains(t, rule.APIGroups, rbacv1.APIGroupAll)
		require.Empty(t, rule.NonResourceURLs)
	}
}

func convert[T any](t *testing.T, obj *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, typed))
	return typed
}
