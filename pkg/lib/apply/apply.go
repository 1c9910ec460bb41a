package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Result describes what Ensure did.
type Result string

// Results of Ensure.
const (
	Created   Result = "Created"
	Updated   Result = "Updated"
	Unchanged Result = "Unchanged"
)

// Verbs returns the RBAC verbs that a client of Ensure needs.
func Verbs() []string { return []string{"create", "get", "patch"} }

// CollisionError reports that an object with the wanted name exists and is not managed by the owner. Retrying does not help
// until the object is deleted.
type CollisionError struct {
	// Object is "<Kind> <namespace>/<name>".
	Object string
	// Found describes the collision in messages; "" means "already exists and was not created by this install".
	Found string
	// Why explains how the collision was recognized.
	Why string
	// Remedy describes what the user can do. Check and NewCollision set it according to the object's kind and labels. The message does not name
	// the operator that owns the object, because the labels can name a namespace that the reader must not learn about.
	Remedy string
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("%s %s: %s; it was not changed: %s", e.Object,
		cmp.Or(e.Found, "already exists and was not created by this install"), e.Why,
		cmp.Or(e.Remedy, "find out what else created it"))
}

// NewCollision reports that a live object is not managed by the owner, because of why.
func NewCollision(live client.Object, why error) *CollisionError {
	return &CollisionError{Object: Describe(live), Why: why.Error(), Remedy: remedyFor(live)}
}

// DelayedError reports that an object cannot be written yet, although the owner is allowed to write it, for example
// because the object is being deleted. Why is the reason.
type DelayedError struct {
	Why string
}

func (e *DelayedError) Error() string { return e.Why }

// IsCollision reports whether the error is a CollisionError or a field conflict of server-side apply. In both cases,
// another client manages the object or field to be written.
func IsCollision(err error) bool {
	_, ok := errors.AsType[*CollisionError](err)
	return ok || IsFieldConflict(err)
}

// IsFieldConflict reports whether server-side apply failed because another field manager owns a field.
func IsFieldConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// Owner decides whether existing objects may be changed, and adds proofs of ownership to desired objects.
// ownerutil.Owner implements it for the objects of an install.
type Owner interface {
	// Check returns nil if a live object may be changed, or the reason why not.
	Check(live client.Object) error
	// Prove adds the proof of ownership to desired. live is nil if the object does not exist yet. Otherwise, it has passed
	// Check or was just created.
	Prove(desired, live *unstructured.Unstructured) error
}

// Ensure creates or updates an object with the client's identity. It reads the object first, and writes nothing if the
// object already has every desired field. If the object is replaced or edited between the read and the write, the
// write fails with a conflict error and the caller should retry.
//
// Ensure returns the resulting object. It returns a CollisionError if the existing object does not belong to the owner,
// and a DelayedError if it is being deleted.
func Ensure(ctx context.Context, c client.Client, desired *unstructured.Unstructured, owner Owner) (Result, *unstructured.Unstructured, error) {
	live, err := Live(ctx, c, desired)
	if err != nil {
		return "", nil, err
	}
	return From(ctx, c, live, desired, owner)
}

// Check returns a CollisionError if the live object does not belong to the owner. Otherwise, or if live is nil, it
// returns nil.
func Check(live, desired *unstructured.Unstructured, owner Owner) error {
	if live == nil {
		return nil
	}
	if why := owner.Check(live); why != nil {
		return &CollisionError{Object: Describe(desired), Why: why.Error(), Remedy: remedyFor(live)}
	}
	return nil
}

// CheckKept returns a DelayedError if the live object, which may be nil, is being deleted.
func CheckKept(live, desired *unstructured.Unstructured) error {
	if live == nil || live.GetDeletionTimestamp() == nil {
		return nil
	}
	return &DelayedError{Why: Describe(desired) + " is being deleted"}
}

// From is like Ensure, for a caller that has already read the live object; live is nil if the object does not exist.
func From(ctx context.Context, c client.Client, live, desired *unstructured.Unstructured, owner Owner) (Result, *unstructured.Unstructured, error) {
	if live == nil {
		made, err := create(ctx, c, desired, owner)
		return Created, made, err
	}
	if err := Check(live, desired, owner); err != nil {
		return "", nil, err
	}
	if err := CheckKept(live, desired); err != nil {
		return "", nil, err
	}
	want := desired.DeepCopy()
	if err := owner.Prove(want, live); err != nil {
		return "", nil, fmt.Errorf("prove ownership of %s: %w", Describe(desired), err)
	}
	if IsInPlace(live, want) {
		return Unchanged, live, nil
	}
	return change(ctx, c, live, want)
}

// IsInPlace reports whether applying desired would not change the live object.
func IsInPlace(live, desired *unstructured.Unstructured) bool {
	return Has(live.Object, desired.Object) && !hasSurplus(live, desired)
}

// WouldCreate sends desired as a dry run. It returns true if the object does not exist and the API server would accept
// its creation. Otherwise, or after an error, callers read the object to find the reason. dry must send dry runs only.
func WouldCreate(ctx context.Context, dry client.Client, desired *unstructured.Unstructured, owner Owner) bool {
	made, err := create(ctx, dry, desired, owner)
	return err == nil && isUnstored(made)
}

// absentVersion is a resource version that no stored object has. The API server ignores the version in an apply that creates
// an object, and rejects an apply to an existing object that has another version. An apply with this version therefore never
// changes an existing object, regardless of who created it.
const absentVersion = "9223372036854775807"

// isUnstored reports whether an object is the response to a dry run that would have created it. Such a response contains the
// version that was sent.
func isUnstored(made *unstructured.Unstructured) bool {
	return made.GetResourceVersion() == absentVersion || made.GetResourceVersion() == ""
}

// change applies want to a live object. It fails with a conflict error if the object has changed since it was read.
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

// Overwrite applies desired to the object with the UID of live, even if that object has changed since it was read. It is for changes
// that only take something away: other users could keep an update from the latest version from succeeding.
func Overwrite(ctx context.Context, c client.Client, live, desired *unstructured.Unstructured, owner Owner) error {
	if err := Check(live, desired, owner); err != nil {
		return err
	}
	want := desired.DeepCopy()
	if err := owner.Prove(want, live); err != nil {
		return fmt.Errorf("prove ownership of %s: %w", Describe(desired), err)
	}
	want.SetUID(live.GetUID())
	return send(ctx, c, want)
}

// Manager returns the field manager with which an install applies an object with these labels. Each lineage has its own, so
// that server-side apply refuses to change fields that another lineage or client applied. The field manager does not prove
// ownership, because clients can choose any.
func Manager(labels map[string]string) string {
	if mark := labels[names.LabelLineage]; mark != "" {
		return names.FieldManager + "-" + names.ShortMark(mark)
	}
	return names.FieldManager
}

// create applies an object that did not exist when the caller tried to read it. If another client has created the object in the
// meantime, it fails with a conflict error and does not change the object.
func create(ctx context.Context, c client.Client, desired *unstructured.Unstructured, owner Owner) (*unstructured.Unstructured, error) {
	made := desired.DeepCopy()
	if err := owner.Prove(made, nil); err != nil {
		return nil, fmt.Errorf("prove ownership of %s: %w", Describe(desired), err)
	}
	sent := made.GetAnnotations()[names.AnnotationProof]
	made.SetResourceVersion(absentVersion)
	if err := send(ctx, c, made); err != nil {
		return nil, err
	}
	again := desired.DeepCopy()
	if err := owner.Prove(again, made); err != nil {
		return nil, fmt.Errorf("prove ownership of %s: %w", Describe(desired), err)
	}
	if isUnstored(made) || again.GetAnnotations()[names.AnnotationProof] == sent {
		return made, nil
	}
	return again, signAgain(ctx, c, again, made)
}

// signTimeout is the time for signAgain.
const signTimeout = 30 * time.Second

// signAgain writes the proof of an object whose creation took too long. Without it, the object would never be recognized again: the program
// does not stop before, and controllers of the API server may have written a status in the meantime, so that only the UID must be the same.
func signAgain(ctx context.Context, c client.Client, again, made *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), signTimeout)
	defer cancel()
	again.SetUID(made.GetUID())
	return send(ctx, c, again)
}

func send(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(Manager(obj.GetLabels())))
	if err != nil {
		return fmt.Errorf("apply %s: %w", Describe(obj), err)
	}
	return nil
}

// Describe returns the name of an object for messages: "<Kind> <namespace>/<name>", or "<Kind> <name>".
func Describe(obj client.Object) string {
	if obj.GetNamespace() == "" {
		return KindOf(obj) + " " + obj.GetName()
	}
	return KindOf(obj) + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// KindOf returns the kind of an object. If a typed object has no kind, as after a read, KindOf returns the name of its
// Go type.
func KindOf(obj client.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if _, ok := obj.(runtime.Unstructured); ok {
		return kind
	}
	return cmp.Or(kind, reflect.TypeOf(obj).Elem().Name())
}
