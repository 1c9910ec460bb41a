package scoped

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Enrollment returns the Role and RoleBinding with which an administrator allows Remit to request tokens for this
// ServiceAccount and no other (security model, rule 5). remitNamespace is the namespace in which Remit is installed.
func Enrollment(account types.NamespacedName, remitNamespace string) []client.Object {
	identity := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: remitNamespace, Name: name}
	}
	return EnrollmentOf(account, identity(names.ServiceAccountCatalog), identity(names.ServiceAccountOLM))
}

// EnrollmentOf is like Enrollment, but for other users than Remit's programs.
func EnrollmentOf(account types.NamespacedName, users ...rbacv1.Subject) []client.Object {
	return grant("remit-enrollment-"+account.Name, account, "create", "serviceaccounts/token", users...)
}

// Authorship returns the Role and RoleBinding with which an administrator allows a user or group to name an account in
// an OperatorGroup (docs/adr/0008). The Role's name identifies the author: the policy remit-grant-bindings refuses to
// bind other subjects to the Role. The messages of the author check contain the same names
// (manifests/policy/author.yaml).
func Authorship(account types.NamespacedName, author rbacv1.Subject) []client.Object {
	return grant("remit-author-"+account.Name+":"+authorName(author), account, "impersonate", "serviceaccounts", author)
}

// authorName returns a unique name for each subject, which for most users is the user name. It escapes / and %, which
// names of RBAC objects cannot contain.
func authorName(author rbacv1.Subject) string {
	name := strings.NewReplacer("~", "~0", "/", "~1", "%", "~2").Replace(author.Name)
	switch {
	case author.Kind == rbacv1.GroupKind:
		return "group:" + name
	case strings.HasPrefix(name, "group:"), strings.HasPrefix(name, "user:"):
		return "user:" + name
	}
	return name
}

// grant returns a Role for one verb on the ServiceAccount and a RoleBinding for the subjects.
func grant(name string, account types.NamespacedName, verb, resource string, subjects ...rbacv1.Subject) []client.Object {
	meta := metav1.ObjectMeta{Name: name, Namespace: account.Namespace}
	return []client.Object{
		&rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{corev1.GroupName}, Resources: []string{resource}, ResourceNames: []string{account.Name}, Verbs: []string{verb},
		}}},
		&rbacv1.RoleBinding{
			TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: subjects,
		},
	}
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}
