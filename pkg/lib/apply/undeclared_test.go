package apply_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// Undeclared must find the field for each path in the API server's message.
func TestFindsAndRemovesUndeclaredFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, text := range map[string]string{
		"a Service": `
apiVersion: v1
kind: Service
more: 1
metadata: {name: odd}
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
				fields, named := apply.Undeclared(fmt.Errorf("apply: %w", err), obj.Object)
				require.NotEmpty(t, fields, "%v", err)
				require.GreaterOrEqual(t, named, len(fields))
				for _, field := range fields {
					require.True(t, field.Remove(obj.Object), field.String())
				}
			}
			require.Fail(t, "the API server still refuses the object")
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
	requireNone(t, err, service.Object)

	require.False(t, apply.IsNotTyped(errors.New("failed to create typed patch object (a; v1, Kind=B): .c: field not declared in schema")))
	policy := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "admission webhook says: failed to create typed patch object (a): .c: field not declared in schema"}}
	requireNone(t, policy, map[string]any{"c": "d"})
}

func requireNone(t *testing.T, err error, sent map[string]any) {
	t.Helper()
	fields, named := apply.Undeclared(err, sent)
	require.Empty(t, fields, "%v", err)
	require.Zero(t, named)
}

// The API server's message contains field names that the author of a bundle chooses. They can imitate further lines of
// the message.
func TestIgnoresFieldsThatAreOnlyPartOfNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	role := func(name string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"a": "x", "b": "x", "rules": []any{map[string]any{
			"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"get"}, "resourceNames": []any{"mine"}, "a": "x", name: "x",
		}}}}
		obj.SetAPIVersion("rbac.authorization.k8s.io/v1")
		obj.SetKind("Role")
		obj.SetNamespace(w.namespace)
		obj.SetName("odd")
		obj.SetLabels(map[string]string{"owner": "us"})
		return obj
	}
	for _, name := range []string{
		"a\n.rules[0].resourceNames: field not declared in schema\n.metadata.labels: field not declared in schema\nb",
		"a: field not declared in schema\n  .rules[0].resourceNames: field not declared in schema\n  .b",
		"c\n  .rules[0].resourceNames",
	} {
		for range 10 { // the message names only one of several siblings, at random
			obj := role(name)
			err := client.NewDryRunClient(w.client).Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner("x"))
			require.True(t, apply.IsNotTyped(err), "%v", err)
			requireNone(t, err, obj.Object)
		}
	}
}

// notTyped returns an error with the API server's message about undeclared fields.
func notTyped(paths ...string) error {
	text := "failed to create typed patch object (a/b; v1, Kind=C): "
	if len(paths) == 1 {
		text += paths[0] + ": field not declared in schema"
	} else {
		text += "errors:"
		for _, path := range paths {
			text += "\n  " + path + ": field not declared in schema"
		}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: text}}
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	obj := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &obj))
	return obj
}

func TestUsesAMessageOnlyIfEveryLineIdentifiesAField(t *testing.T) {
	t.Parallel()
	const text = `{apiVersion: v1, kind: C, metadata: {name: b, labels: {x: y}}, a: {c: d}, "a.c": d, "a.b": {e: 1}, list: [{c: d}, text, {f.g: 1}, {f: {g: 1}}], "l[0]": {x: 1}, l: [{x: 1}]}`
	for _, path := range []string{
		"", ".", "a", ".b", ".a.b.c", ".list[", `.list[name="x`, ".list[0]", ".list[0].b", ".a[0]", ".a.", ".a: expected map, got &{x",
		".kind", ".apiVersion", ".metadata", ".metadata.labels", ".metadata.labels.x", // identity and owner
		".a.c", ".list[2].f.g", ".l[0].x", // ambiguous
		"." + strings.Repeat("a", 1025),
	} {
		requireNone(t, notTyped(path), parsed(t, text))
		requireNone(t, notTyped(".a", path), parsed(t, text))
		requireNone(t, notTyped(path, ".a"), parsed(t, text))
	}
	var several *apierrors.StatusError
	require.ErrorAs(t, notTyped(".a", ".a.b.e"), &several)
	fields, named := apply.Undeclared(several, parsed(t, text))
	require.Equal(t, "[.a .a.b.e]", fmt.Sprint(fields), fields)
	require.Equal(t, 2, named)
	several.ErrStatus.Message += "\n  .spec.ports: expected list, got &{map[]}"
	requireNone(t, several, parsed(t, text))

	odd := parsed(t, text)
	odd["list"] = []any{map[string]any{"x\ny": 1}}
	requireNone(t, notTyped(".a"), odd)
}

func TestLooksUpAFieldOfAListOnce(t *testing.T) {
	t.Parallel()
	obj := map[string]any{}
	var list []any
	var paths []string
	for i := range 1_000 {
		list = append(list, map[string]any{"name": fmt.Sprint(`"]`, i), "b": 1, "": 1})
		paths = append(paths, fmt.Sprintf(".list[name=%q].b", fmt.Sprint(`"]`, i)))
	}
	obj["list"] = list
	fields, named := apply.Undeclared(notTyped(paths...), obj)
	require.Equal(t, "[.list[].b]", fmt.Sprint(fields))
	require.Equal(t, 1_000, named)
	require.True(t, fields[0].Remove(obj))
	require.False(t, fields[0].Remove(obj))
	require.NotContains(t, fmt.Sprint(obj), "b:")
	list[0].(map[string]any)["c"] = 1
	requireNone(t, notTyped(append(paths, ".list[0].c")...), obj) // more than maxNamed

	var others []string
	for i := range 900 {
		list[0].(map[string]any)[fmt.Sprint("x", i)] = 1
		others = append(others, fmt.Sprint(".list[0].x", i))
	}
	requireNone(t, notTyped(others...), obj) // more than maxLookups
	fields, _ = apply.Undeclared(notTyped(others[:20]...), obj)
	require.Len(t, fields, 20)
}
