package provided

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"math/big"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Suffixes of the roles of provided APIs and of OperatorGroups (OLM v0 contract).
const (
	admin = "admin"
	edit  = "edit"
	view  = "view"
)

// verbs contains the verbs of the roles on a provided API.
var verbs = map[string][]string{
	admin: {"*"},
	edit:  {"create", "update", "patch", "delete"},
	view:  {"get", "list", "watch"},
}

// suffixes returns the suffixes in a fixed order.
func suffixes() []string { return []string{admin, edit, view} }

const (
	// aggregateToDefault is the prefix of the label that adds a ClusterRole to one of the default roles of Kubernetes.
	aggregateToDefault = "rbac.authorization.k8s.io/aggregate-to-"
	// aggregateToGroup is the prefix of the label that adds the ClusterRole of an API to the ClusterRoles of
	// OperatorGroups.
	aggregateToGroup = "olm.opgroup.permissions/aggregate-to-"
)

// RolesOf returns the ClusterRoles for an API, without owner labels: <resource>-<version>-admin, -edit and -view and, for
// a CustomResourceDefinition, -crdview, which allows reading the definition.
func RolesOf(api API) []*rbacv1.ClusterRole {
	var out []*rbacv1.ClusterRole
	for _, suffix := range suffixes() {
		out = append(out, roleOf(api, suffix, suffix, rbacv1.PolicyRule{
			APIGroups: []string{api.Group}, Resources: []string{api.Plural}, Verbs: verbs[suffix],
		}))
	}
	if !api.Served {
		out = append(out, roleOf(api, "crdview", view, rbacv1.PolicyRule{
			APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{"customresourcedefinitions"},
			ResourceNames: []string{api.Resource()}, Verbs: []string{"get"},
		}))
	}
	return out
}

func roleOf(api API, name, suffix string, rule rbacv1.PolicyRule) *rbacv1.ClusterRole {
	role := newRole(api.Resource() + "-" + api.Version + "-" + name)
	role.Labels = map[string]string{aggregateToDefault + suffix: "true", groupLabel(api, suffix): "true"}
	role.Rules = []rbacv1.PolicyRule{rule}
	return role
}

func newRole(name string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

func groupLabel(api API, suffix string) string {
	h := fnv.New64a()
	fmt.Fprint(h, api.String())
	return fmt.Sprintf("%s%x-%s", aggregateToGroup, h.Sum64(), suffix)
}

// GroupRoles returns the ClusterRoles of an OperatorGroup, without owner labels: olm.og.<name>.admin-<hash>, -edit and
// -view. They aggregate the roles of the APIs that the group's operators provide. Without APIs, they select a label that no role
// has: without an aggregation rule, Kubernetes would keep the rules that were aggregated last.
func GroupRoles(group *operatorsv1.OperatorGroup, apis []API) []*rbacv1.ClusterRole {
	var out []*rbacv1.ClusterRole
	if len(apis) == 0 {
		apis = []API{{}}
	}
	for _, suffix := range suffixes() {
		sum := sha256.Sum224([]byte(group.Namespace + "/" + group.Name + "/" + suffix))
		role := newRole(fmt.Sprintf("olm.og.%s.%s-%s", group.Name, suffix, new(big.Int).SetBytes(sum[:]).Text(62)))
		role.AggregationRule = &rbacv1.AggregationRule{}
		for _, api := range apis {
			role.AggregationRule.ClusterRoleSelectors = append(role.AggregationRule.ClusterRoleSelectors,
				metav1.LabelSelector{MatchLabels: map[string]string{groupLabel(api, suffix): "true"}})
		}
		out = append(out, role)
	}
	return out
}

// Missing returns the permissions that an account with these cluster-wide permissions is missing to write and later
// delete a ClusterRole: those for the requests, and those that the API server's escalation check requires. live is the
// current state of the ClusterRole, or nil.
func Missing(role, live *rbacv1.ClusterRole, granted rbac.Permissions) []rbacv1.PolicyRule {
	missing := granted.Set().Missing([]rbacv1.PolicyRule{{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{role.Name},
		Verbs: append(apply.Verbs(), "delete"),
	}})
	verdict := rbac.RoleGrant(role, live).Check(granted)
	if !verdict.Covered() {
		missing = append(missing, verdict.Missing...)
	}
	return missing
}
