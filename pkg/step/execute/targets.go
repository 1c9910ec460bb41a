package execute

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// IsForTarget reports whether an object is a role or a binding that is rendered from a CSV's permissions for a target namespace
// other than the operator's own. The names of these objects are predictable, so that a user of the target can occupy them.
func IsForTarget(obj *unstructured.Unstructured, owner ownerutil.Owner) bool {
	return obj.GetLabels()[names.LabelPermissionsHash] != "" && obj.GetNamespace() != "" && obj.GetNamespace() != owner.Namespace
}

// RefusedError reports that the API server refuses an object that the account has the permissions to write: because of a quota, a
// policy, a webhook or the state of the namespace. No watch reports when it would accept the object.
type RefusedError struct {
	// Message is the API server's message, of limited length.
	Message string
	Err     error
}

func (e *RefusedError) Error() string { return e.Message }
func (e *RefusedError) Unwrap() error { return e.Err }

// Occupies reports whether an error shows that a user of a target namespace occupies a role or a binding there: it collides with an
// object of another owner, it is too large to be read, or it cannot be written yet, because it has a finalizer, the bindings of the
// namespace are too many or cannot be listed, or the namespace accepts no further objects (RefusedError).
func Occupies(err error) bool {
	_, delayed := errors.AsType[*apply.DelayedError](err)
	_, refused := errors.AsType[*RefusedError](err)
	_, tooLarge := errors.AsType[*apply.TooLargeError](err)
	return delayed || refused || tooLarge || apply.IsCollision(err)
}

// Disturbed returns an *apply.DelayedError if an object in a target namespace could not be written because someone changed or deleted it, or
// the Role of a binding, in the meantime, and otherwise nil. The users of the namespace can do so each time.
func Disturbed(err error) error {
	_, remains := errors.AsType[*RemainingError](err)
	if remains || Occupies(err) || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return nil
	}
	return &apply.DelayedError{Why: "it was changed or deleted while it was written: " + err.Error()}
}

// SkipOccupied skips an operator's roles and bindings in each target namespace in which a user occupies one of them. The operator gets
// no permissions there, so that a user of one target does not prevent the install for the others (docs/adr/0087).
func SkipOccupied(states []State) {
	type target struct{ csv, namespace string }
	occupied := map[target]bool{}
	of := func(s State) target { return target{s.Step.Owner.CSV, s.Step.Object.GetNamespace()} }
	for i := range states {
		s := &states[i]
		if !IsForTarget(s.Step.Object, s.Step.Owner) {
			continue
		}
		if s.Problem == nil {
			s.Problem = apply.CheckKept(s.Live, s.Step.Object)
		}
		if Occupies(s.Problem) {
			occupied[of(*s)] = true
		}
	}
	for i, s := range states {
		states[i].Skipped = IsForTarget(s.Step.Object, s.Step.Owner) && occupied[of(s)]
	}
}

// Occupation returns an error that says what an occupied target namespace means for the operator.
func Occupation(namespace string, why error) error {
	return fmt.Errorf("the operator gets no permissions in namespace %s: %w", namespace, why)
}
