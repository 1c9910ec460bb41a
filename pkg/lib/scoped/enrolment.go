package scoped

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Enrolment is the Role and RoleBinding by which whoever administers an account lets Remit, installed
// in the given namespace, request tokens of it: of this one ServiceAccount and no other (security
// model, rule 5).
func Enrolment(account types.NamespacedName, remitNamespace string) []client.Object {
	meta := metav1.ObjectMeta{Name: "remit-enrolment-" + account.Name, Namespace: account.Namespace}
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	self := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: remitNamespace, Name: name}
	}
	return []client.Object{
		&rbacv1.Role{TypeMeta: typed("Role"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups:     []string{corev1.GroupName},
			Resources:     []string{"serviceaccounts/token"},
			ResourceNames: []string{account.Name},
			Verbs:         []string{"create"},
		}}},
		&rbacv1.RoleBinding{
			TypeMeta: typed("RoleBinding"), ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{self(names.ServiceAccountCatalog), self(names.ServiceAccountOLM)},
		},
	}
}
