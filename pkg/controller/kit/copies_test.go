package kit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestTheCacheOfCopiesContainsNoDescriptions(t *testing.T) {
	now := metav1.Now()
	copied, want := Copy(), Copy()
	want.ObjectMeta = metav1.ObjectMeta{
		Namespace: "t2", Name: "demo.v1", UID: "1", ResourceVersion: "7", DeletionTimestamp: &now, Finalizers: []string{names.FinalizerCSV},
		OwnerReferences: []metav1.OwnerReference{{Name: "a"}},
		Labels:          map[string]string{names.LabelCopiedFrom: "t1"},
		Annotations: map[string]string{
			names.AnnotationProof: "p", names.AnnotationCopyHash: "h", names.AnnotationOperatorGroup: "og", names.AnnotationOperatorNamespace: "t1",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: names.UserAgentOLM}, {Manager: names.UserAgentOLM, Subresource: "status"}},
	}
	want.DeepCopyInto(copied)
	copied.Labels["operators.coreos.com/demo.t1"], copied.Annotations["alm-examples"] = "", "[]"
	for i := range copied.ManagedFields {
		copied.ManagedFields[i].Operation, copied.ManagedFields[i].FieldsV1 = metav1.ManagedFieldsOperationUpdate, metav1.NewFieldsV1("{}")
	}
	for i := range 50_000 { // any user can label an object with the largest metadata as a copy
		copied.Finalizers = append(copied.Finalizers, fmt.Sprint("a/", i))
		copied.OwnerReferences = append(copied.OwnerReferences, metav1.OwnerReference{Name: "b"})
	}
	trim := trimCopies()
	for range 2 { // informers can transform an object twice
		got, err := trim(copied)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	copied.Annotations[names.AnnotationOperatorGroup] = strings.Repeat("x", maxValue+1)
	copied.Finalizers = []string{"a/b"}
	copied.ManagedFields = make([]metav1.ManagedFieldsEntry, 50_000)
	_, err := trim(copied)
	require.NoError(t, err)
	require.NotContains(t, copied.Annotations, names.AnnotationOperatorGroup)
	require.Empty(t, copied.Finalizers)
	require.Len(t, copied.ManagedFields, maxManagers)
	tombstone := toolscache.DeletedFinalStateUnknown{Key: "x"}
	got, err := trim(tombstone)
	require.NoError(t, err)
	require.Equal(t, tombstone, got)
}
