package operator

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func operatorWithStatus(name string) *operatorsv1.Operator {
	op := &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{
		Name: "demo.t1", UID: "1", ResourceVersion: "7", Labels: map[string]string{"a": "b"},
		Annotations:   map[string]string{names.AnnotationProof: "p", "a": "b"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "remit-olm", Operation: metav1.ManagedFieldsOperationUpdate}},
	}}
	op.Status = desiredStatus(operatorWith(ref("Role", "t1", name)))
	return op
}

func TestATrimmedOperatorHasTheFingerprintOfItsStatus(t *testing.T) {
	op := operatorWithStatus("a")
	want := fingerprint(op.Status)
	require.Equal(t, want, fingerprintOf(op))
	for range 2 { // informers call it twice for their first objects
		Trim(op)
		require.Equal(t, want, fingerprintOf(op))
	}
	require.Equal(t, &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{
		Name: "demo.t1", UID: "1", ResourceVersion: "7", Annotations: map[string]string{names.AnnotationProof: "p"}, ManagedFields: op.ManagedFields,
	}}, op)
	other := operatorWithStatus("b")
	Trim(other)
	require.NotEqual(t, want, fingerprintOf(other))

	foreign := &operatorsv1.Operator{}
	Trim(foreign)
	require.Nil(t, foreign.Annotations)
	require.Equal(t, fingerprint(operatorsv1.OperatorStatus{}), fingerprintOf(foreign))
}

// A user who may update Operators could use the fingerprint of the desired status as the name of a field manager, but not omit the
// operation.
func TestAFieldManagerDoesNotForgeTheFingerprint(t *testing.T) {
	desired := fingerprint(operatorWithStatus("a").Status)
	op := operatorWithStatus("b")
	op.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: desired, Operation: metav1.ManagedFieldsOperationApply}}
	Trim(op)
	require.NotEqual(t, desired, fingerprintOf(op))
}
