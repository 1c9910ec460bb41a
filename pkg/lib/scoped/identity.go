package scoped

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Identity is the user that Remit acts as when it installs: an account, or the synthetic user of a ClusterExtension that names no
// ServiceAccount. Preflight evaluates the permissions of the same Identity that Clients uses for requests.
type Identity struct {
	// Account is the zero value for a synthetic user.
	Account Account
	// Extension is the name of the ClusterExtension that the synthetic user belongs to; "" for an account.
	Extension string
}

// Identity returns the account as an Identity.
func (a Account) Identity() Identity { return Identity{Account: a} }

// ServiceAccountIdentity returns the Identity of a ServiceAccount whose UID is not known. It is sufficient for checks,
// but no client can be created for it.
func ServiceAccountIdentity(key types.NamespacedName) Identity {
	return Account{Namespace: key.Namespace, Name: key.Name}.Identity()
}

// ExtensionIdentity returns the synthetic user of a ClusterExtension, or an error if no ClusterExtension can have that
// name.
func ExtensionIdentity(name string) (Identity, error) {
	i := Identity{Extension: name}
	return i, i.validateExtension()
}

// validateExtension returns an error unless the Identity is the synthetic user of a ClusterExtension with a valid name.
// A valid name contains no colon.
func (i Identity) validateExtension() error {
	if errs := validation.NameIsDNSSubdomain(i.Extension, false); len(errs) > 0 {
		return fmt.Errorf("%q is not a valid ClusterExtension name: %s", i.Extension, errs[0])
	}
	if i.Account != (Account{}) {
		return fmt.Errorf("an identity cannot be both ServiceAccount %s and the user of ClusterExtension %s", i.Account.Key(), i.Extension)
	}
	return nil
}

// IsSynthetic reports whether this is the synthetic user of a ClusterExtension.
func (i Identity) IsSynthetic() bool { return i.Extension != "" }

// Username returns the user name that the API server authenticates.
func (i Identity) Username() string {
	if i.IsSynthetic() {
		return names.UserExtensionPrefix + i.Extension
	}
	return Username(i.Account.Namespace, i.Account.Name)
}

// Groups returns all groups that the API server assigns to the user.
func (i Identity) Groups() []string {
	if i.IsSynthetic() {
		return []string{names.GroupExtensions, user.AllAuthenticated}
	}
	return append(serviceaccount.MakeGroupNames(i.Account.Namespace), user.AllAuthenticated)
}

// Subject returns the subject that refers to the user in bindings.
func (i Identity) Subject() rbacv1.Subject {
	if i.IsSynthetic() {
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: i.Username()}
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: i.Account.Namespace, Name: i.Account.Name}
}

// ID returns the namespace and name of an account, or the name of a synthetic user.
func (i Identity) ID() string {
	if i.IsSynthetic() {
		return i.Username()
	}
	return i.Account.Key().String()
}

// String describes the identity for messages, for example "ServiceAccount team-a/installer".
func (i Identity) String() string { return i.Subject().Kind + " " + i.ID() }
