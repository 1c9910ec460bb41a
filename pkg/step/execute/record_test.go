package execute

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// An account that the OperatorGroup names later may not be allowed to change the annotation.
func TestAClusterServiceVersionKeepsItsFirstAccount(t *testing.T) {
	e := &Executor{Key: types.NamespacedName{Namespace: "ns", Name: "second"}}
	recorded := func(live *unstructured.Unstructured) map[string]string {
		desired := &unstructured.Unstructured{Object: map[string]any{}}
		e.record(desired, live)
		return desired.GetAnnotations()
	}
	live := &unstructured.Unstructured{Object: map[string]any{}}
	require.Equal(t, map[string]string{names.AnnotationAccount: "ns/second"}, recorded(nil))
	require.Empty(t, recorded(live), "the controller of ClusterServiceVersions adds it")
	live.SetAnnotations(map[string]string{names.AnnotationAccount: "ns/first"})
	require.Equal(t, map[string]string{names.AnnotationAccount: "ns/first"}, recorded(live))
}
