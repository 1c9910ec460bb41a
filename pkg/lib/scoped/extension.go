package scoped

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Impersonation is a form of permission to impersonate a user (docs/adr/0044).
type Impersonation string

// Forms of impersonation.
const (
	// ImpersonationConstrained limits what the impersonator may do as the user. API servers of Kubernetes 1.36 and later
	// support it unless the feature gate ConstrainedImpersonation is disabled.
	ImpersonationConstrained Impersonation = "constrained"
	// ImpersonationLegacy allows everything that the user may do. All API servers support it.
	ImpersonationLegacy Impersonation = "legacy"
)

// ImpersonationFor returns the form that an API server of this version supports, according to its git version. A version
// that cannot be parsed yields ImpersonationLegacy.
func ImpersonationFor(gitVersion string) Impersonation {
	v, err := version.ParseGeneric(gitVersion)
	if err == nil && v.AtLeast(version.MajorMinor(1, 36)) {
		return ImpersonationConstrained
	}
	return ImpersonationLegacy
}

// impersonatedVerbs are the verbs of all requests that Remit sends as a synthetic user. Server-side apply is a patch, even
// if it creates the object.
func impersonatedVerbs() []string {
	return []string{"create", "delete", "get", "list", "patch", "watch"}
}

// authenticationGroup is the API group of the users and groups in rules for constrained impersonation.
const authenticationGroup = "authentication.k8s.io"

// ImpersonationRules returns the cluster-wide rules that allow impersonating a synthetic user in its group, and no other
// user or group. Constrained impersonation also requires permission for each request; see ExtensionEnrollment.
func ImpersonationRules(identity Identity, how Impersonation) []rbacv1.PolicyRule {
	group, verb := authenticationGroup, "impersonate:user-info"
	if how == ImpersonationLegacy {
		group, verb = corev1.GroupName, "impersonate"
	}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{group}, Resources: []string{"users"}, ResourceNames: []string{identity.Username()}, Verbs: []string{verb}},
		{APIGroups: []string{group}, Resources: []string{"groups"}, ResourceNames: []string{names.GroupExtensions}, Verbs: []string{verb}},
	}
}

// ExtensionEnrollment returns the ClusterRole and ClusterRoleBinding with which an administrator allows Remit to
// impersonate the synthetic user of one ClusterExtension. If impersonation is constrained, Remit may only send requests
// with the verbs that it uses.
func ExtensionEnrollment(identity Identity, remitNamespace string, how Impersonation) []client.Object {
	rules := ImpersonationRules(identity, how)
	if how == ImpersonationConstrained {
		on := rbacv1.PolicyRule{APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}}
		for _, verb := range impersonatedVerbs() {
			on.Verbs = append(on.Verbs, "impersonate-on:user-info:"+verb)
		}
		rules = append(rules, on)
	}
	return clusterGrant(extensionEnrollment+identity.Extension, rules, remitExtension(remitNamespace))
}

// ExtensionAccountEnrollment returns the Role and RoleBinding with which an administrator allows Remit to request tokens
// for a ServiceAccount that ClusterExtensions name.
func ExtensionAccountEnrollment(account types.NamespacedName, remitNamespace string) []client.Object {
	return grant(extensionEnrollment+account.Name, account, "create", "serviceaccounts/token", remitExtension(remitNamespace))
}

// extensionEnrollment is the prefix of the names of the roles of enrollments for ClusterExtensions. The policy
// remit-extension-grant-bindings allows only Remit to be bound to them.
const extensionEnrollment = "remit-extension-enrollment-"

// EnrolledForExtension returns the name of the ClusterExtension or, for a Role, the ServiceAccount that a role enrolls,
// according to the name of the role. ok is false if the role is not part of an enrollment for ClusterExtensions.
func EnrolledForExtension(role string) (name string, ok bool) {
	name, ok = strings.CutPrefix(role, extensionEnrollment)
	return name, ok && name != ""
}

func remitExtension(remitNamespace string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: remitNamespace, Name: names.ServiceAccountExtension}
}

// VerbInstall on a ClusterExtension allows users to install through its synthetic user, but not to act as that user.
const VerbInstall = "install"

// ExtensionAuthorship returns the ClusterRole and ClusterRoleBinding with which an administrator allows a user or group
// to create the ClusterExtension of this name without a ServiceAccount. The policy remit-extension-author-check requires
// the permission, and its messages contain the same names (manifests/extensions/policy).
func ExtensionAuthorship(extension string, author rbacv1.Subject) []client.Object {
	rule := rbacv1.PolicyRule{
		APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"clusterextensions"}, ResourceNames: []string{extension}, Verbs: []string{VerbInstall},
	}
	return clusterGrant("remit-extension-author-"+extension+":"+authorName(author), []rbacv1.PolicyRule{rule}, author)
}

// clusterGrant returns a ClusterRole with the rules and a ClusterRoleBinding for the subject.
func clusterGrant(name string, rules []rbacv1.PolicyRule, subject rbacv1.Subject) []client.Object {
	return []client.Object{
		&rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{subject},
		},
	}
}

// NotEnrolledExtension returns the Error that reports that this program is not allowed to impersonate a synthetic user.
// refusal is the API server's error.
func NotEnrolledExtension(identity Identity, refusal error) *Error {
	return &Error{Reason: AccountNotEnrolled, Message: fmt.Sprintf(
		"%s is not enrolled: Remit is not allowed to impersonate it; to enroll it, run: kubectl remit enroll clusterextension %s (%v)",
		identity, identity.Extension, refusal)}
}
