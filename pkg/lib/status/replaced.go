package status

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// Replaced recognizes objects that a cache still returns although their status has been replaced. A controller that wrote the
// status of such an object again would only cause a conflict. The zero value is ready to use.
type Replaced struct {
	versions keyed.Map[types.NamespacedName, replacement]
	own      Own
}

// replacement is the version that a write has replaced. onlyTexts is true if the write has changed only texts.
type replacement struct {
	version   string
	onlyTexts bool
}

// Patch is like the function Patch. It also records the version that it replaces, and the status for DropTexts.
func (r *Replaced) Patch(ctx context.Context, c client.Client, before, after client.Object) error {
	is := replacement{before.GetResourceVersion(), differsInTexts(before, after)}
	err := r.own.Patch(ctx, c, before, after)
	if err == nil && after.GetResourceVersion() != is.version {
		r.versions.Set(client.ObjectKeyFromObject(after), is)
	}
	return err
}

// Has reports whether Patch has replaced this version of an object. The event for the newer version is then pending, and triggers
// another reconcile unless DropTexts drops it.
func (r *Replaced) Has(obj client.Object) bool {
	key := client.ObjectKeyFromObject(obj)
	is := r.versions.Get(key)
	if is.version == obj.GetResourceVersion() && is.version != "" {
		return true
	}
	r.versions.Delete(key)
	return false
}

// Delay returns when to read an object again for which Has returns true: CacheLag if DropTexts drops the pending event, and otherwise 0.
func (r *Replaced) Delay(obj client.Object) time.Duration {
	if r.versions.Get(client.ObjectKeyFromObject(obj)).onlyTexts {
		return CacheLag
	}
	return 0
}

// DropTexts returns a predicate that drops the updates in which Patch has changed only texts. A controller that uses it reads the object
// again after Delay if Has returns true, and after CacheLag if there is a conflict.
func (r *Replaced) DropTexts() predicate.Predicate { return r.own.DropTexts() }

// ForgetFunc drops the versions of the objects for whose keys a function returns true, for example because they were deleted.
func (r *Replaced) ForgetFunc(of func(types.NamespacedName) bool) {
	r.versions.DeleteFunc(of)
	r.own.ForgetFunc(of)
}
