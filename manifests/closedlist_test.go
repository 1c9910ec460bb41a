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
	rbacGroup       = "rbac.authorization.k8s.io"
	operatorsGroup  = "operators.coreos.com"
	extensionsGroup = "olm.operatorframework.io"
)

// write is a verb that a controller identity is allowed to use on a resource, cluster-wide.
type write struct{ group, resource, verb string }

// allowed reports whether a write is on the closed list of docs/adr/0001, which contains every cluster-wide write permission that
// the controller identities may have. An additional line requires a decision record in docs/adr.
func allowed(w write) bool {
	switch w.group {
	case operatorsGroup:
		return allowedOfOLM(w)
	case extensionsGroup:
		// The status, one label and one finalizer: docs/adr/0047 and 0049.
		kinds := []string{"clustercatalogs", "clusterextensions"}
		return w.verb == "patch" && slices.Contains(kinds, strings.TrimSuffix(w.resource, "/status"))
	case "", "events.k8s.io":
		resources := []string{"events"}
		if w.group == "" {
			resources = append(resources, "configmaps") // reports on plans: docs/adr/0007
		}
		return slices.Contains(resources, w.resource) && slices.Contains([]string{"create", "patch"}, w.verb)
	case "authorization.k8s.io":
		return w.resource == "subjectaccessreviews" && w.verb == "create"
	}
	return false
}

// allowedOfOLM reports whether a write is on the part of the closed list that is for OLM's kinds.
func allowedOfOLM(w write) bool {
	return slices.Contains(verbsOfOLM()[w.resource], w.verb)
}

// verbsOfOLM returns the verbs that are allowed for OLM's kinds, by resource.
func verbsOfOLM() map[string][]string {
	verbs := map[string][]string{
		"clusterserviceversions":    {"create", "delete", "patch"}, // copies and finalizers: docs/adr/0053 and 0006
		"installplans":              {"create"},
		"operatorconditions":        {"create"}, // docs/adr/0059
		"operatorconditions/status": {"patch"},
		"operators":                 {"create", "delete"}, // docs/adr/0062
		"operators/status":          {"patch"},
		"subscriptions":             {"create"},
	}
	for _, resource := range []string{"catalogsources", "clusterserviceversions", "installplans", "olmconfigs", "operatorgroups", "subscriptions"} {
		verbs[resource+"/status"] = []string{"patch", "update"}
		verbs[resource+"/finalizers"] = []string{"update"}
	}
	return verbs
}

func TestControllerIdentitiesHaveOnlyTheClosedList(t *testing.T) {
	// The compat profile adds only permissions to act as others without an enrollment: tokens for all ServiceAccounts and,
	// with ClusterExtensions, impersonation of all users (docs/adr/0047).
	mintAny := write{resource: "serviceaccounts/token", verb: "create"}
	as := func(kind string) write { return write{resource: kind, verb: "impersonate"} }
	for installation, more := range map[string][]write{
		ProfileBounded: nil, ProfileCompat: {mintAny},
		withExtensions + ProfileBounded: nil, withExtensions + ProfileCompat: {as("users"), as("groups"), mintAny},
	} {
		t.Run(installation, func(t *testing.T) {
			rules := clusterRules(t, installations(t)[installation])
			require.NotEmpty(t, rules)

			var extra []write
			for _, w := range writes(rules) {
				if !allowed(w) && !slices.Contains(extra, w) {
					extra = append(extra, w)
				}
			}
			require.Equal(t, more, extra)
			requireNoWildcard(t, rules)
		})
	}
}

// The optional identity for removals has only the permissions of docs/adr/0075 and 0088, and Remit may use it and read its policy.
func TestTheRemoverHasOnlyTheClosedList(t *testing.T) {
	objs, err := RenderRemover()
	require.NoError(t, err)
	rules := map[string][]rbacv1.PolicyRule{}
	for _, kind := range []string{"ClusterRole", "Role"} {
		for _, obj := range ofKind(objs, kind) {
			rules[kind+" "+obj.GetName()] = convert[rbacv1.ClusterRole](t, obj).Rules
		}
	}
	const policies, tokens = "admissionregistration.k8s.io", "serviceaccounts/token"
	require.Equal(t, map[string][]rbacv1.PolicyRule{
		"ClusterRole remit-remover": {
			{APIGroups: []string{rbacGroup}, Resources: []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}, Verbs: []string{"delete"}},
			{APIGroups: []string{policies}, Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}, Verbs: []string{"delete", "get", "list"}},
		},
		"ClusterRole remit-remover-policy": {{APIGroups: []string{policies}, Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
			ResourceNames: []string{"remit-self-removals"}, Verbs: []string{"get"}}},
		"Role remit-remover": {{APIGroups: []string{""}, Resources: []string{tokens}, ResourceNames: []string{names.ServiceAccountRemover}, Verbs: []string{"create"}}},
	}, rules)
	for _, policy := range ofKind(objs, "ValidatingAdmissionPolicy") {
		limited, _, err := unstructured.NestedSlice(policy.Object, "spec", "matchConstraints", "resourceRules")
		require.NoError(t, err)
		require.Len(t, limited, len(rules["ClusterRole remit-remover"]), "the policy limits each kind that the identity may delete")
		for i, rule := range rules["ClusterRole remit-remover"] {
			resources, _, err := unstructured.NestedStringSlice(limited[i].(map[string]any), "resources")
			require.NoError(t, err)
			require.Equal(t, rule.Resources, resources)
		}
	}
}

// Only the program that installs ClusterExtensions may impersonate, only in compat, and only in the group of synthetic users.
func TestOnlyCompatAllowsImpersonation(t *testing.T) {
	for installation, objs := range installations(t) {
		for _, obj := range ofKind(objs, "ClusterRole") {
			for _, rule := range convert[rbacv1.ClusterRole](t, obj).Rules {
				if !slices.Contains(rule.Verbs, "impersonate") {
					continue
				}
				require.Equal(t, withExtensions+ProfileCompat+"/remit-impersonate-any", installation+"/"+obj.GetName())
				if slices.Contains(rule.Resources, "groups") {
					require.Equal(t, []string{names.GroupExtensions}, rule.ResourceNames)
				}
			}
		}
		for _, obj := range ofKind(objs, "ClusterRoleBinding") {
			if binding := convert[rbacv1.ClusterRoleBinding](t, obj); binding.RoleRef.Name == "remit-impersonate-any" {
				require.Equal(t, []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: names.DefaultNamespace, Name: names.ServiceAccountExtension}}, binding.Subjects)
			}
		}
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
		{operatorsGroup, "operators", "patch"},
		{operatorsGroup, "operators", "update"},
		{operatorsGroup, "operators/finalizers", "update"},
		{operatorsGroup, "operatorconditions", "patch"},
		{operatorsGroup, "operatorconditions", "update"},
		{operatorsGroup, "operatorconditions/finalizers", "update"},
		{operatorsGroup, "operators/status", "update"},
		{operatorsGroup, "*/status", "*"},
		{extensionsGroup, "clustercatalogs", "create"},
		{extensionsGroup, "clustercatalogs", "update"},
		{extensionsGroup, "clusterextensions", "create"},
		{extensionsGroup, "clusterextensions", "update"},
		{extensionsGroup, "clusterextensions", "install"},
		{"authentication.k8s.io", "users", "impersonate:user-info"},
	} {
		require.False(t, allowed(w), "%v", w)
	}
}

func TestControllerIdentitiesReadNoSecrets(t *testing.T) {
	for installation, objs := range installations(t) {
		for _, rule := range clusterRules(t, objs) {
			require.NotContains(t, rule.Resources, "secrets", installation)
			if slices.Contains(rule.Resources, "configmaps") {
				require.NotContains(t, rule.Verbs, "list", installation)
				require.NotContains(t, rule.Verbs, "watch", installation)
			}
		}
	}
}

// The permissions of each program in Remit's two namespaces, role by role. An additional line also requires a decision record. In
// Remit's namespace, every rule has resourceNames, because that namespace also contains the other programs' tokens and Leases.
// ConfigMaps are the exception: a policy limits access to them (docs/adr/0047).
func TestControllerIdentitiesHaveMinimalPermissionsInTheirNamespaces(t *testing.T) {
	for installation, objs := range installations(t) {
		got := map[string][]rbacv1.PolicyRule{}
		for _, obj := range ofKind(objs, "Role") {
			key := obj.GetNamespace() + "/" + obj.GetName()
			got[key] = convert[rbacv1.Role](t, obj).Rules
			if obj.GetNamespace() == names.DefaultNamespace {
				for _, rule := range got[key] {
					require.True(t, len(rule.ResourceNames) > 0 || slices.Equal(rule.Resources, []string{"configmaps"}), key)
				}
			}
		}
		require.Equal(t, minimalRoles(installation), got, installation)
		for _, obj := range ofKind(objs, "RoleBinding") {
			binding := convert[rbacv1.RoleBinding](t, obj)
			require.Equal(t, obj.GetName(), binding.RoleRef.Name)
			require.Len(t, binding.Subjects, 1, "a Role belongs to one program")
			require.True(t, strings.HasPrefix(binding.Name, binding.Subjects[0].Name))
		}
	}
}

// minimalRoles returns the rules of all Roles of an installation, by namespace and name.
func minimalRoles(installation string) map[string][]rbacv1.PolicyRule {
	const own, catalogs = names.DefaultNamespace + "/", names.DefaultCatalogNamespace + "/"
	rule := func(resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: resources, Verbs: verbs}
	}
	named := func(resource, name string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: verbs}
	}
	lease := func(name string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{name}, Verbs: []string{"get", "update"}}
	}
	// The only Secret: see docs/adr/0019.
	keys := named("secrets", names.SecretProof, "create", "get", "list", "patch", "watch")
	out := map[string][]rbacv1.PolicyRule{
		own + "remit-catalog": {lease("remit-catalog"), keys},
		own + "remit-olm":     {lease("remit-olm"), keys},
		catalogs + "remit-catalog-registries": {
			rule([]string{"pods"}, "create", "delete", "list", "patch", "watch"),
			rule([]string{"serviceaccounts", "services"}, "create", "delete", "patch"),
		},
		catalogs + "remit-catalog-content": {rule([]string{"configmaps"}, "watch"), rule([]string{"secrets"}, "get")},
	}
	if strings.HasPrefix(installation, withExtensions) {
		out[own+"remit-extension"] = []rbacv1.PolicyRule{lease("remit-extension"), keys, rule([]string{"configmaps"}, "create", "get", "patch")}
	}
	return out
}

// The rule for the Secret has its resource name and only verbs that respect resourceNames.
func TestControllerIdentitiesWriteOneSecret(t *testing.T) {
	for installation, objs := range installations(t) {
		for _, obj := range ofKind(objs, "Role") {
			for _, rule := range convert[rbacv1.Role](t, obj).Rules {
				if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"get"}) {
					require.Equal(t, []string{names.SecretProof}, rule.ResourceNames, installation)
					require.Equal(t, []string{"secrets"}, rule.Resources, installation)
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
	require.Empty(t, bound, "Remit's programs are bound to ClusterRoles that are not part of this installation")
	return rules
}

func boundToPrograms(t *testing.T, objs []*unstructured.Unstructured) []string {
	t.Helper()
	programs := []string{names.ServiceAccountCatalog, names.ServiceAccountOLM, names.ServiceAccountExtension}
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
