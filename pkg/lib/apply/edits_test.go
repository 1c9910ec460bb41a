package apply_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

func object(value map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: value}
}

func TestOmitsWhatOtherManagersChanged(t *testing.T) {
	container := func(name string, more map[string]any) map[string]any {
		out := map[string]any{"name": name}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	desired := object(map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "1", "b": "1"}},
		"spec": map[string]any{"replicas": int64(1), "same": "x", "containers": []any{
			container("one", map[string]any{"image": "i", "probe": map[string]any{"port": int64(1)}}), container("two", map[string]any{"image": "i"}),
		}},
	})
	live := object(map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "2", "b": "1"}},
		"spec": map[string]any{"replicas": int64(3), "same": "x", "other": "y", "containers": []any{
			container("one", map[string]any{"image": "j"}), container("two", map[string]any{"image": "i"}), container("sidecar", map[string]any{"image": "k"}),
		}},
	})
	set := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	live.SetManagedFields([]metav1.ManagedFieldsEntry{
		set("remit", `{"f:spec": {"f:same": {}}, "f:metadata": {"f:labels": {".": {}, "f:b": {}}}}`),
		set("scaler", `{"f:spec": {"f:replicas": {}, "f:same": {}, "f:other": {}}}`),
		set("editor", `{"f:metadata": {"f:labels": {".": {}, "f:a": {}, "f:c": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"one\"}": {".": {}, "f:image": {}},
		  "k:{\"name\":\"sidecar\"}": {".": {}, "f:image": {}}}}, "f:status": {"f:phase": {}}}`),
		set("broken", `[]`),
	})
	got, edits := apply.WithoutEdits(live, desired)
	require.Equal(t, []string{
		`metadata.labels.a (by "editor")`, `spec.containers[{"name":"one"}].image (by "editor")`, `spec.replicas (by "scaler")`,
	}, edits)
	require.Equal(t, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"b": "1"}},
		"spec": map[string]any{"same": "x", "containers": []any{
			container("one", map[string]any{"probe": map[string]any{"port": int64(1)}}), container("two", map[string]any{"image": "i"}),
		}},
	}, got.Object)
	require.Contains(t, desired.Object["spec"], "replicas", "desired is not changed")

	_, edits = apply.WithoutEdits(got, desired)
	require.Empty(t, edits, "without managed fields, nothing is known about edits")
}
