package scoped

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// CheckReserved returns an *Error if a ServiceAccount is one of Remit's own. Nothing is installed as these: what limits them, such
// as the policies of their requests, is not made for the content of bundles. remitNamespace is the namespace in which Remit is
// installed; "" means that it is unknown.
func CheckReserved(account types.NamespacedName, remitNamespace string) *Error {
	own := []string{
		names.ServiceAccountCatalog, names.ServiceAccountOLM, names.ServiceAccountExtension, names.ServiceAccountPackageServer, names.ServiceAccountRemover,
	}
	if remitNamespace == "" || account.Namespace != remitNamespace || !slices.Contains(own, account.Name) {
		return nil
	}
	return &Error{Reason: AccountReserved, Namespace: account.Namespace, Message: fmt.Sprintf(
		"ServiceAccount %s belongs to Remit itself, and nothing is installed as it; name another ServiceAccount", account)}
}
