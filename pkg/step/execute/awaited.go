package execute

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Awaited returns an *apply.CollisionError if a binding of somebody else refers to an operator's role that does not exist yet:
// its subjects would have what is granted to the operator. The names of these roles can be known before, and whoever may
// write Roles and RoleBindings can bind an empty role of any name and delete it. Roles that a bundle brings are for people to
// bind, and are not looked at.
func Awaited(l rbac.Listers, role *unstructured.Unstructured, owner ownerutil.Owner) error {
	kind := role.GetKind()
	if kind != "Role" && kind != "ClusterRole" || role.GetLabels()[names.LabelPermissionsHash] == "" || !l.Readable() {
		return nil
	}
	bindings, err := l.BindingsOf(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role.GetName()}, role.GetNamespace())
	if err != nil {
		return fmt.Errorf("bindings of %s: %w", apply.Describe(role), err)
	}
	for _, b := range bindings {
		if owner.Owns(b) {
			continue
		}
		object := "ClusterRoleBinding " + b.GetName()
		if b.GetNamespace() != "" {
			object = "RoleBinding " + b.GetNamespace() + "/" + b.GetName()
		}
		if kind == "ClusterRole" && b.GetNamespace() != owner.Namespace && b.GetNamespace() != "" {
			object = "a RoleBinding of another namespace" // which is not for its reader to know
		}
		return &apply.CollisionError{Object: object, Why: fmt.Sprintf("it refers to %s, which is not created yet, and would grant its subjects what is for the operator", apply.Describe(role))}
	}
	return nil
}
