package apply_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// The API server names fields in its own way: each path that it gives leads to the field.
func TestFieldsThatTheAPIServerDoesNotKnowAreFoundAndRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, text := range map[string]string{
		"a Service": `
apiVersion: v1
kind: Service
more: 1
metadata: {name: odd, more: x}
spec:
  more: {a: b}
  another: [1]
  ports: [{port: 80, name: a, more: 1}, {port: 81, name: b, more: 1}]
  sessionAffinityConfig: {clientIP: {more: 1}}
`, "a CustomResourceDefinition": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: odds.undeclared.example.com}
spec:
  group: undeclared.example.com
  scope: Namespaced
  version: v1
  names: {kind: Odd, listKind: OddList, plural: odds, singular: odd}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          a.b: {type: string, more: true}
          a[0]: {type: string, more: true}
          a: {type: object, more: true, properties: {b: {type: string, more: true}}}
`,
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(text), &obj.Object))
			if obj.GetKind() == "Service" {
				obj.SetNamespace(w.namespace)
			}
			for range 20 {
				err := client.NewDryRunClient(w.client).Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner("x"))
				if err == nil {
					require.NotContains(t, fmt.Sprint(obj.Object), "more")
					return
				}
				require.True(t, apply.IsNotTyped(err), "%v", err)
				paths := apply.Undeclared(fmt.Errorf("apply: %w", err))
				require.NotEmpty(t, paths, "%v", err)
				pruned := false
				for _, path := range paths { // of one list, the first stands for all
					pruned = apply.Prune(obj.Object, path) || pruned
				}
				require.True(t, pruned, "%q", paths)
			}
			require.Fail(t, "the API server still refuses it")
		})
	}
}

func TestAValueOfTheWrongTypeIsNotUndeclared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	service := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"ports": "many"}}}
	service.SetAPIVersion("v1")
	service.SetKind("Service")
	service.SetNamespace(w.namespace)
	service.SetName("odd")
	err := w.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(service), client.FieldOwner("x"))
	require.True(t, apply.IsNotTyped(err), "%v", err)
	require.Empty(t, apply.Undeclared(err))

	require.False(t, apply.IsNotTyped(errors.New("failed to create typed patch object (a; v1, Kind=B): .c: field not declared in schema")))
	policy := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "admission webhook says: failed to create typed patch object (a): .c: field not declared in schema"}}
	require.Empty(t, apply.Undeclared(policy), "words of somebody else")
}

func TestPruneFindsNothingWhereThereIsNothing(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", ".", "a", ".b", ".a.b", ".list", ".list[", `.list[name="x`, ".list[0]", ".list[0].b", ".a[0]"} {
		obj := map[string]any{"a": map[string]any{"c": "d"}, "list": []any{map[string]any{"c": "d"}, "text"}}
		want := len(obj)
		got := apply.Prune(obj, path)
		require.Equal(t, path == ".list", got, path)
		if !got {
			require.Len(t, obj, want, path)
		}
	}
	obj := map[string]any{"list": []any{map[string]any{"name": `"]x`, "b": 1}, map[string]any{"name": "y", "b": 1}}}
	require.True(t, apply.Prune(obj, `.list[name="\"]x"].b`))
	require.Equal(t, map[string]any{"list": []any{map[string]any{"name": `"]x`}, map[string]any{"name": "y"}}}, obj)
}
