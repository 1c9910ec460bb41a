package operator

import (
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Trim replaces the status of an Operator with its fingerprint, and removes the labels and all annotations except the proof. A cache
// calls it with each Operator, because a status is large and is only compared as a whole. Trim has no effect on an Operator that it
// has already trimmed.
func Trim(op *operatorsv1.Operator) {
	if isTrimmed(op) {
		return
	}
	// The fingerprint is in the managed fields because it cannot be forged there: the API server accepts only entries with an
	// operation.
	op.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: fingerprint(op.Status)}}
	op.Status, op.Labels = operatorsv1.OperatorStatus{}, nil
	proof, ok := op.Annotations[names.AnnotationProof]
	if op.Annotations = nil; ok {
		op.Annotations = map[string]string{names.AnnotationProof: proof}
	}
}

func isTrimmed(op *operatorsv1.Operator) bool {
	return len(op.ManagedFields) == 1 && op.ManagedFields[0].Operation == ""
}

// fingerprintOf returns the fingerprint of an Operator's status, whether or not the Operator is trimmed.
func fingerprintOf(op *operatorsv1.Operator) string {
	if isTrimmed(op) {
		return op.ManagedFields[0].Manager
	}
	return fingerprint(op.Status)
}
