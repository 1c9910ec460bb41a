package budget

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Refuse marks a cached object from which the program has removed parts because they need too much memory. size is the
// memory that the complete object needs. The object in the API server stays as it is.
func Refuse(obj metav1.Object, size int64) {
	annotations := map[string]string{names.AnnotationTooLarge: strconv.FormatInt(size, 10)}
	for key, value := range obj.GetAnnotations() {
		if key != names.AnnotationTooLarge {
			annotations[key] = value
		}
	}
	obj.SetAnnotations(annotations)
}

// Refused returns an *ObjectError if the cached object is incomplete, because its user wrote more than Remit keeps in
// memory, a *DecodeError if it is incomplete because a part of it cannot be decoded (package decoding), and nil otherwise. A
// user who sets one of the annotations on an object only has this object refused.
func Refused(obj metav1.Object) error {
	if reason, ok := obj.GetAnnotations()[names.AnnotationUndecodable]; ok {
		return &DecodeError{Reason: reason}
	}
	size, err := strconv.ParseInt(obj.GetAnnotations()[names.AnnotationTooLarge], 10, 64)
	if err != nil {
		return nil //nolint:nilerr // the annotation is absent, or not from Refuse
	}
	return &ObjectError{Size: size}
}

// ObjectError is an object that needs too much memory.
type ObjectError struct {
	// Size is the memory that the object needs, in bytes.
	Size int64
}

func (e *ObjectError) Error() string {
	return fmt.Sprintf("the object needs %s of memory, which is more than Remit keeps for an object of this kind; "+
		"remove entries from its lists, labels or annotations", bytes(e.Size))
}

// DecodeError is an object of which a part has a value that its type does not have.
type DecodeError struct {
	// Reason describes the first such value. It can contain text of the object.
	Reason string
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("a part of the object cannot be decoded; correct the field that the reason names, or delete the object: %q", e.Reason)
}
