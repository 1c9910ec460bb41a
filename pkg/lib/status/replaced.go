package status

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// Replaced recognizes objects that a cache still returns although their status has been replaced. A controller that wrote the
// status of such an object again would only cause a conflict. The zero value is ready to use.
type Replaced struct {
	versions keyed.Map[types.NamespacedName, string]
}

// Patch is like the function Patch. It also records the version that it replaces.
func (r *Replaced) Patch(ctx context.Context, c client.Client, before, after client.Object) error {
	version := before.GetResourceVersion()
	err := Patch(ctx, c, before, after)
	if err == nil && after.GetResourceVersion() != version {
		r.versions.Set(client.ObjectKeyFromObject(after), version)
	}
	return err
}

// Has reports whether Patch has replaced this version of an object. The event for the newer version is then pending, and triggers
// another reconcile.
func (r *Replaced) Has(obj client.Object) bool {
	key := client.ObjectKeyFromObject(obj)
	version := r.versions.Get(key)
	if version == obj.GetResourceVersion() && version != "" {
		return true
	}
	r.versions.Delete(key)
	return false
}

// ForgetFunc drops the versions of the objects for whose keys a function returns true, for example because they were deleted.
func (r *Replaced) ForgetFunc(of func(types.NamespacedName) bool) { r.versions.DeleteFunc(of) }
