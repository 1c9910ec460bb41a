package status

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// CacheLag is how long a cache is expected to take to show a status that was just written. If a predicate of Own drops the event for
// the write, a controller that has read an outdated object must read it again after this time.
const CacheLag = 200 * time.Millisecond

// Own recognizes the statuses that a controller has written itself. Without it, a text that differs each time, such as one of a
// webhook, would wake the object in an endless loop: each write would cause the reconcile that gets the next text. The zero value is
// ready to use.
type Own struct {
	// hashes contains the hash of the last status of each object. After a restart, it is empty, which costs at most one reconcile.
	hashes keyed.Map[types.NamespacedName, string]
}

// Patch is like the function Patch. It also calls Record.
func (o *Own) Patch(ctx context.Context, c client.Client, before, after client.Object) error {
	if err := o.Record(after); err != nil {
		return err
	}
	return Patch(ctx, c, before, after)
}

// Record records the status of an object. It is called before the status is written, because the event may arrive before the response.
func (o *Own) Record(obj client.Object) error {
	text, err := hash(obj)
	if err == nil {
		o.hashes.Set(client.ObjectKeyFromObject(obj), text)
	}
	return err
}

// Wrote reports whether the status of an object is the one that was recorded last.
func (o *Own) Wrote(obj client.Object) bool {
	text, err := hash(obj)
	return err == nil && o.hashes.Get(client.ObjectKeyFromObject(obj)) == text
}

// Forget drops what is recorded about an object.
func (o *Own) Forget(key types.NamespacedName) { o.hashes.Delete(key) }

// ForgetFunc drops what is recorded about the objects for whose keys a function returns true.
func (o *Own) ForgetFunc(of func(types.NamespacedName) bool) { o.hashes.DeleteFunc(of) }

// DropStatuses returns a predicate that drops the updates that only report a status that the controller has written. Statuses that
// other clients write pass.
func (o *Own) DropStatuses() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !hasNewStatus(e) || !o.Wrote(e.ObjectNew)
	}}
}

// DropTexts returns a predicate that drops the updates in which the controller itself has changed only texts of the status. It is for
// controllers that have more to do after they have changed the rest of a status.
func (o *Own) DropTexts() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !hasNewTexts(e) || !o.Wrote(e.ObjectNew)
	}}
}

// DropTexts returns a predicate that drops the updates in which any client has changed only texts of the status. It is for watches of
// objects whose texts the controller does not read: two objects that wake each other would otherwise never stop if a text of each
// differs each time.
func DropTexts() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !hasNewTexts(e) }}
}

// hasNewStatus reports whether an update has changed nothing but the status. A resync changes nothing at all.
func hasNewStatus(e event.UpdateEvent) bool {
	a, b := e.ObjectOld, e.ObjectNew
	return a.GetResourceVersion() != b.GetResourceVersion() && a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) && isEqual(a.GetFinalizers(), b.GetFinalizers()) &&
		isEqual(a.GetAnnotations(), b.GetAnnotations()) && isEqual(a.GetLabels(), b.GetLabels()) && isEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

func hasNewTexts(e event.UpdateEvent) bool {
	return hasNewStatus(e) && differsInTexts(e.ObjectOld, e.ObjectNew)
}

// differsInTexts reports whether the statuses of two versions of an object are equal except for texts.
func differsInTexts(a, b client.Object) bool {
	return isEqualButTexts(statusOf(a), statusOf(b))
}

// hash returns the hash of the status as the API server stores it.
func hash(obj client.Object) (string, error) {
	status := statusOf(obj)
	if !status.IsValid() {
		return "", fmt.Errorf("%T has no status", obj)
	}
	text, err := json.Marshal(status.Interface())
	if err != nil {
		return "", fmt.Errorf("encode status: %w", err)
	}
	return ownerutil.Hash(string(text)), nil
}

// statusOf returns the status of an object. It is not valid if the object has none.
func statusOf(obj client.Object) reflect.Value {
	if u, ok := obj.(interface{ UnstructuredContent() map[string]any }); ok {
		return reflect.ValueOf(u.UnstructuredContent()["status"])
	}
	v := reflect.Indirect(reflect.ValueOf(obj))
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName("Status")
}
