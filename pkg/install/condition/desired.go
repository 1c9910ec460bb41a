package condition

import (
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	resource = "operatorconditions"
	// maxRoleName bounds the length of the Role's name, so that it can be used as a label value (OLM v0 contract).
	maxRoleName = 63
	// maxComponentLabels is the maximum number of component labels that are copied from a ClusterServiceVersion.
	maxComponentLabels = 8
)

// Desired returns the OperatorCondition of a ClusterServiceVersion. It has the name and the component labels of the
// ClusterServiceVersion, which owns it.
func Desired(csv *operatorsv1alpha1.ClusterServiceVersion) *operatorsv2.OperatorCondition {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Namespace: csv.Namespace}, CSV: csv.Name, UID: csv.UID}
	return &operatorsv2.OperatorCondition{
		ObjectMeta: metav1.ObjectMeta{
			Name: csv.Name, Namespace: csv.Namespace, Labels: componentLabels(csv), OwnerReferences: []metav1.OwnerReference{owner.Reference()},
		},
		Spec: operatorsv2.OperatorConditionSpec{ServiceAccounts: ServiceAccounts(csv), Deployments: deployments(csv)},
	}
}

// componentLabels returns the labels of the ClusterServiceVersion that make it a component of an Operator.
func componentLabels(csv *operatorsv1alpha1.ClusterServiceVersion) map[string]string {
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(csv.Labels)) {
		if strings.HasPrefix(key, names.LabelComponentPrefix) && len(out) < maxComponentLabels {
			out[key] = ""
		}
	}
	return out
}

// ServiceAccounts returns the ServiceAccounts that the Deployments of the install strategy run as, sorted.
func ServiceAccounts(csv *operatorsv1alpha1.ClusterServiceVersion) []string {
	specs := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs
	out := make([]string, 0, len(specs))
	for i := range specs {
		out = append(out, deployment.ServiceAccountName(&specs[i].Spec.Template.Spec))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// deployments returns the names of the Deployments of the install strategy, in its order.
func deployments(csv *operatorsv1alpha1.ClusterServiceVersion) []string {
	var out []string
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		out = append(out, d.Name)
	}
	return out
}

// Rules returns the permissions that an operator needs to report its conditions.
func Rules(csv string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{operatorsv2.GroupVersion.Group}, Resources: []string{resource}, ResourceNames: []string{csv}, Verbs: []string{"get", "update", "patch"},
	}}
}

// Access returns the Role and RoleBinding that give the operator's ServiceAccounts the permissions of Rules. Their names
// contain a hash, so that they do not collide with a Role of a tenant or a bundle that has the same name as the
// ClusterServiceVersion. It returns nil if the ClusterServiceVersion has no Deployments.
func Access(csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner) ([]*unstructured.Unstructured, error) {
	var subjects []rbacv1.Subject
	for _, name := range ServiceAccounts(csv) {
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: owner.Namespace})
	}
	if len(subjects) == 0 {
		return nil, nil
	}
	hash := ownerutil.Hash(owner.Namespace, csv.Name, resource)
	meta := metav1.ObjectMeta{
		Name: roleName(csv.Name, hash), Namespace: owner.Namespace, Labels: owner.Labels(), OwnerReferences: []metav1.OwnerReference{owner.Reference()},
	}
	meta.Labels[names.LabelPermissionsHash] = hash
	return apply.Objects(rbac.RoleAndBinding(meta, Rules(csv.Name), subjects...))
}

// roleName returns <csv>-condition-<hash>, shortened to maxRoleName.
func roleName(csv, hash string) string {
	suffix := "-condition-" + hash
	return csv[:min(len(csv), maxRoleName-len(suffix))] + suffix
}

// MayReport reports whether the permissions in the namespace of a ClusterServiceVersion include those of Rules.
func MayReport(permissions rbac.Permissions, csv string) bool {
	return len(permissions.Set().Missing(Rules(csv))) == 0
}

// Needs returns the permissions that the account needs to write the objects that Access returns. They are optional: without them,
// the operator is still installed. The account must have the permissions of Rules itself; the verbs escalate and bind do not
// replace them, because other workloads may use the operator's ServiceAccount (for example, default), whose permissions must not
// exceed those of the account.
func Needs(csv *operatorsv1alpha1.ClusterServiceVersion, access []*unstructured.Unstructured) []rbac.Need {
	var needs []rbac.Need
	for _, obj := range access {
		needs = append(needs, hooks.Request(obj, "apply "+apply.Describe(obj), apply.Verbs()...))
		if obj.GetKind() == "Role" {
			needs = append(needs, rbac.Need{
				Namespace: obj.GetNamespace(), Rules: Rules(csv.Name), Granted: true,
				Object: apply.Describe(obj), Cause: "let the operator update OperatorCondition " + csv.Namespace + "/" + csv.Name,
			})
		}
	}
	return needs
}
