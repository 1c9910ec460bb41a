package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is an RBAC object with its metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// RoleAndBinding returns a role with the rules and a binding of the role to the subjects. Both have the same metadata.
// They are a Role and a RoleBinding or, without a namespace, a ClusterRole and a ClusterRoleBinding.
func RoleAndBinding(meta metav1.ObjectMeta, rules []rbacv1.PolicyRule, subjects ...rbacv1.Subject) (role, binding Object) {
	kind := kindRole
	role = &rbacv1.Role{TypeMeta: typeOf(kindRole), ObjectMeta: meta, Rules: rules}
	if meta.Namespace == ClusterScope {
		kind = kindClusterRole
		role = &rbacv1.ClusterRole{TypeMeta: typeOf(kindClusterRole), ObjectMeta: meta, Rules: rules}
	}
	return role, BindingTo(kind, meta.Name, meta, subjects...)
}

// BindingTo returns a RoleBinding or, without a namespace, a ClusterRoleBinding that binds a role to the subjects.
func BindingTo(kind, name string, meta metav1.ObjectMeta, subjects ...rbacv1.Subject) Object {
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	if meta.Namespace == ClusterScope {
		return &rbacv1.ClusterRoleBinding{TypeMeta: typeOf(kindClusterRoleBinding), ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	return &rbacv1.RoleBinding{TypeMeta: typeOf(kindRoleBinding), ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}
