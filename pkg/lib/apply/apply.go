package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
	// Found says what is the matter with it; "" for "exists and is not ours".
	Found string
	// Why says how that was recognized.
	Why string
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("%s %s: %s; it was left as it is", e.Object, cmp.Or(e.Found, "exists and is not ours"), e.Why)
}

// IsCollision says whether the error is a CollisionError or a field conflict of server-side apply:
// in both cases somebody else holds what we would write.
func IsCollision(err error) bool {
	var collision *CollisionError
	return errors.As(err, &collision) || IsFieldConflict(err)
}

// IsFieldConflict says whether server-side apply was refused because another field manager holds a field.
func IsFieldConflict(err error) bool {
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

// Owner decides about objects that exist and proves what is created. ownerutil.Owner is the owner for the objects of
// an install.
type Owner interface {
	// Check returns why a live object may not be changed, or nil.
	Check(live client.Object) error
	// Prove adds the proof of ownership to desired. live is the object that is about to be changed and has passed
	// Check, or that was just created, or nil before it is created.
	Prove(desired, live *unstructured.Unstructured) error
}

// Ensure creates the object as desired, or changes it, with the client's identity. It reads first and writes nothing
// if the object already has every desired field. The write is bound to what was read: if somebody replaced or edited
// the object in between, it returns a conflict error, to be retried.
//
// It returns the resulting object, or a CollisionError if an object of this name is not the owner's.
func Ensure(ctx context.Context, c client.Client, desired *unstructured.Unstructured, owner Owner) (Result, *unstructured.Unstructured, error) {
	live, err := Live(ctx, c, desired)
	if err != nil {
		return "", nil, err
	}
	return From(ctx, c, live, desired, owner)
}

// Check says, without writing, whether From would refuse: a CollisionError or nil.
func Check(live, desired *unstructured.Unstructured, owner Owner) error {
	if live == nil {
		return nil
	}
	if why := owner.Check(live); why != nil {
		return &CollisionError{Object: Describe(desired), Why: why.Error()}
	}
	return nil
}

// From is Ensure for an object that was read before; live is nil where there was none.
func From(ctx context.Context, c client.Client, live, desired *unstructured.Unstructured, owner Owner) (Result, *unstructured.Unstructured, error) {
	if live == nil {
		made, err := create(ctx, c, desired, owner)
		return Created, made, err
	}
	if err := Check(live, desired, owner); err != nil {
		return "", nil, err
	}
	if live.GetDeletionTimestamp() != nil {
		return "", nil, fmt.Errorf("%s is being deleted", Describe(desired))
	}
	want := desired.DeepCopy()
	if err := owner.Prove(want, live); err != nil {
		return "", nil, fmt.Errorf("prove %s: %w", Describe(desired), err)
	}
	if Has(live.Object, want.Object) && !hasSurplus(live, want) {
		return Unchanged, live, nil
	}
	return change(ctx, c, live, want)
}

// change applies to exactly the object that was read.
func change(ctx context.Context, c client.Client, live, want *unstructured.Unstructured) (Result, *unstructured.Unstructured, error) {
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

// Manager is the field manager of what an install applies, given its labels: one for each lineage. Server-side apply has
// no "only if absent", but it refuses to change what another manager has applied, and the lineage label
// always differs: of two installs that make one object at the same moment, the second is refused.
// The name proves nothing: clients choose their field managers.
func Manager(labels map[string]string) string {
	if mark := labels[names.LabelLineage]; mark != "" {
		return names.FieldManager + "-" + mark
	}
	return names.FieldManager
}

// create applies an object that was absent when it was read. If somebody else created it in the meantime, their field
// manager shows in the answer. Then create withdraws its fields, the proof above all, and returns a CollisionError.
//
// Somebody may have applied an object of this name under the same field manager. It then has exactly the desired
// fields, because an apply removes those that the manager applied before.
func create(ctx context.Context, c client.Client, desired *unstructured.Unstructured, owner Owner) (*unstructured.Unstructured, error) {
	made := desired.DeepCopy()
	if err := owner.Prove(made, nil); err != nil {
		return nil, fmt.Errorf("prove %s: %w", Describe(desired), err)
	}
	sent := made.GetAnnotations()[names.AnnotationProof]
	if err := send(ctx, c, made); err != nil {
		return nil, err
	}
	if other := otherManager(made, Manager(desired.GetLabels())); other != "" {
		collision := &CollisionError{Object: Describe(desired), Why: fmt.Sprintf("%q created it at the same moment", other)}
		return nil, errors.Join(collision, withdraw(ctx, c, made, desired))
	}
	again := desired.DeepCopy()
	if err := owner.Prove(again, made); err != nil {
		return nil, fmt.Errorf("prove %s: %w", Describe(desired), err)
	}
	isDryRun := made.GetResourceVersion() == ""
	if isDryRun || again.GetAnnotations()[names.AnnotationProof] == sent {
		return made, nil
	}
	_, made, err := change(ctx, c, made, again) // it took so long that the proof is for another time
	return made, err
}

// otherManager returns a field manager of a new object that is not an apply under this name; "" if there is none.
func otherManager(made *unstructured.Unstructured, manager string) string {
	for _, f := range made.GetManagedFields() {
		if f.Manager != manager || f.Operation != metav1.ManagedFieldsOperationApply {
			return f.Manager
		}
	}
	return ""
}

// withdraw removes what was applied to somebody else's object.
func withdraw(ctx context.Context, c client.Client, made, desired *unstructured.Unstructured) error {
	nothing := &unstructured.Unstructured{}
	nothing.SetGroupVersionKind(made.GroupVersionKind())
	nothing.SetNamespace(made.GetNamespace())
	nothing.SetName(made.GetName())
	nothing.SetUID(made.GetUID())
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(nothing), client.FieldOwner(Manager(desired.GetLabels())))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("withdraw from %s: %w", Describe(desired), err)
	}
	return nil
}

func send(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(Manager(obj.GetLabels())))
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
