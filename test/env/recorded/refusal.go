package recorded

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ByAPolicy returns the response of the API server if a ValidatingAdmissionPolicy whose validation sets no reason refuses an object.
// Its code is that of an invalid object, but it names no field.
func ByAPolicy(resource, name string) error {
	const why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not today"
	err := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New(why))
	err.ErrStatus.Reason, err.ErrStatus.Code = metav1.StatusReasonInvalid, 422
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: why}}
	return err
}

// ByAWebhook returns the response of the API server if a webhook that sets no code refuses an object.
func ByAWebhook() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 400, Message: `admission webhook "w.example.com" denied the request: not today`}}
}
