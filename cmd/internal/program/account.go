package program

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Account is the value of a flag that names a ServiceAccount as <namespace>/<name>; "" means none.
type Account types.NamespacedName

// Set implements pflag.Value.
func (a *Account) Set(s string) error {
	if s == "" {
		*a = Account{}
		return nil
	}
	key, err := scoped.ParseKey(s)
	*a = Account(key)
	return err
}

// String implements pflag.Value.
func (a *Account) String() string {
	if a.Name == "" {
		return ""
	}
	return a.Key().String()
}

// Type implements pflag.Value.
func (a *Account) Type() string { return "string" }

// Key returns the namespace and the name of the ServiceAccount. Both are empty if the flag is empty.
func (a Account) Key() types.NamespacedName { return types.NamespacedName(a) }
