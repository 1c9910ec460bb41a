package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Result says what Ensure found or did.
type Result string

// Results of Ensure.
const (
	Created   Result = "Created"
	Updated   Result = "Updated"
	Unchanged Result = "Unchanged"
)

// Verbs are those of a server-side apply that reads first.
func Verbs() []string { return []string{"create", "get", "patch"} }

// CollisionError says that an object of the wanted name exists and is not ours. It wakes when
// somebody removes the object; retrying before is pointless.
type CollisionError struct {
	// Object is "<Kind> <namespace>/<name>".
	Object string
	// Why says how the object was recognised as somebody else's.
	Why string
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("%s exists and is not ours: %s; it was left as it is", e.Object, e.Why)
}

// IsCollision says whether the error is a CollisionError or a field conflict of server-side apply:
// in both cases somebody else holds what we would write.
func IsCollision(err error) bool {
	var collision *CollisionError
	return errors.As(err, &collision) || isFieldConflict(err)
}

func isFieldConflict(err error) bool {
	if !apierrors.IsConflict(err) {
		return false
	}
	for _, cause := range causes(err) {
		if cause == "FieldManagerConflict" {
			return true
		}
	}
	return false
}

func causes(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var types []string
	for _, c := range status.Status().Details.Causes {
		types = append(types, string(c.Type))
	}
	return types
}

// Ensure makes the object be as desired, as the client's identity. ours decides, of an object that
// exists, whether it may be changed. It reads first and writes nothing where the object already has
// every desired field. The write is bound to what was read: an object that was replaced or edited in
// between is a conflict error, to be retried.
//
// It returns the object as it is then, and a CollisionError where it is not ours.
func Ensure(ctx context.Context, c client.Client, desired *unstructured.Unstructured, ours Ours) (Result, *unstructured.Unstructured, error) {
	live, err := Live(ctx, c, desired)
	if err != nil {
		return "", nil, err
	}
	return From(ctx, c, live, desired, ours)
}

// Ours says why a live object may not be changed, as an error; nil where it may.
type Ours func(live *unstructured.Unstructured) error

// Check says, without writing, whether From would refuse: a CollisionError or nil.
func Check(live, desired *unstructured.Unstructured, ours Ours) error {
	if live == nil {
		return nil
	}
	if why := ours(live); why != nil {
		return &CollisionError{Object: Describe(desired), Why: why.Error()}
	}
	return nil
}

// From is Ensure for an object that was read before; live is nil where there was none.
func From(ctx context.Context, c client.Client, live, desired *unstructured.Unstructured, ours Ours) (Result, *unstructured.Unstructured, error) {
	if live == nil {
		made, err := create(ctx, c, desired)
		return Created, made, err
	}
	if err := Check(live, desired, ours); err != nil {
		return "", nil, err
	}
	if live.GetDeletionTimestamp() != nil {
		return "", nil, fmt.Errorf("%s is being deleted", Describe(desired))
	}
	if Contains(live.Object, desired.Object) && !hasSurplus(live, desired) {
		return Unchanged, live, nil
	}
	want := desired.DeepCopy()
	want.SetUID(live.GetUID())
	want.SetResourceVersion(live.GetResourceVersion())
	if err := send(ctx, c, want); err != nil {
		return "", nil, err
	}
	if want.GetResourceVersion() == live.GetResourceVersion() {
		return Unchanged, want, nil
	}
	return Updated, want, nil
}

// Live reads the object that desired names; nil where there is none.
func Live(ctx context.Context, c client.Reader, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(desired.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(desired), live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", Describe(desired), err)
	}
	return live, nil
}

// managerOf is the field manager of what an install applies, one for each lineage. Server-side apply has
// no "only if absent", but it refuses to change what another manager has applied, and the lineage label
// always differs: of two installs that make one object at the same moment, the second is refused.
func managerOf(obj *unstructured.Unstructured) string {
	if mark := obj.GetLabels()[names.LabelLineage]; mark != "" {
		return names.FieldManager + "-" + mark
	}
	return names.FieldManager
}

// Applied says whether an install of the lineage whose mark an object carries has applied it, as the API
// server noted. The mark alone can be put on by whoever may write the object.
func Applied(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == managerOf(live) && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == ""
	})
}

// create applies an object that was absent a moment ago. Whoever made it meanwhile without applying it
// shows in the answer: a fresh object has one field manager, ours.
func create(ctx context.Context, c client.Client, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	want := desired.DeepCopy()
	if err := send(ctx, c, want); err != nil {
		return nil, err
	}
	for _, f := range want.GetManagedFields() {
		if f.Manager != managerOf(desired) {
			return nil, &CollisionError{
				Object: Describe(desired),
				Why:    fmt.Sprintf("%q created it at the same moment", f.Manager),
			}
		}
	}
	return want, nil
}

func send(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(managerOf(obj)))
	if err != nil {
		return fmt.Errorf("apply %s: %w", Describe(obj), err)
	}
	return nil
}

// Describe names an object for people: "<Kind> <namespace>/<name>", or "<Kind> <name>".
func Describe(obj *unstructured.Unstructured) string {
	if obj.GetNamespace() == "" {
		return obj.GetKind() + " " + obj.GetName()
	}
	return obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName()
}
