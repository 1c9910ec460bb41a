package decoding

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/budget"
)

// wrong contains, as JSON, one value of each type and form that can differ from what a Go type expects.
var wrong = []string{
	`null`, `true`, `1`, `-1`, `3000000000`, `9007199254740993`, `1.5`, `1e300`, `""`, `"abc"`, `"1e99999"`, `"2026-11-28"`, `"999999999h"`, `"=="`,
	`[]`, `{}`, `["x"]`, `[1]`, `[{}]`, `[null]`, `[["x"]]`, `{"a":"b"}`, `{"a":1}`, `{"a":{}}`, `{"a":["x"]}`, `{"a":null}`,
}

// server processes an object as the API server does. It is made of the API server's own parts.
type server struct {
	schema    *structural.Structural
	validator validation.SchemaValidator
}

func serverOf(t *testing.T, props *apiextensionsv1.JSONSchemaProps) server {
	t.Helper()
	internal := &apiextensions.JSONSchemaProps{}
	require.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil))
	schema, err := structural.NewStructural(internal)
	require.NoError(t, err)
	validator, _, err := validation.NewSchemaValidator(internal)
	require.NoError(t, err)
	return server{schema, validator}
}

// accepts reports whether the API server stores the object once its required fields are added, and changes it to what is stored.
func (s server) accepts(obj map[string]any) bool {
	pruning.Prune(obj, s.schema, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, s.schema)
	errs := append(validation.ValidateCustomResource(nil, obj, s.validator), objectmeta.Validate(nil, obj, s.schema, false)...)
	return !slices.ContainsFunc(errs, func(err *field.Error) bool { return err.Type != field.ErrorTypeRequired })
}

// place is a part of a Go type. build returns an object with a value at the place.
type place struct {
	path  string
	build func(value any) any
}

func places(t reflect.Type, at place, visit func(place)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	visit(at)
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			switch {
			case name == "-" || !t.Field(i).IsExported():
			case name == "" && t.Field(i).Anonymous:
				places(t.Field(i).Type, at, func(p place) {
					if p.path != at.path {
						visit(p)
					}
				})
			default:
				places(t.Field(i).Type, place{at.path + "." + name, func(v any) any { return at.build(map[string]any{name: v}) }}, visit)
			}
		}
	case reflect.Slice:
		places(t.Elem(), place{at.path + "[]", func(v any) any { return at.build([]any{v}) }}, visit)
	case reflect.Map:
		places(t.Elem(), place{at.path + "{}", func(v any) any { return at.build(map[string]any{"a": v}) }}, visit)
	default: // has no parts
	}
}

// hole is an object that the API server stores and that cannot be decoded.
type hole struct {
	place, value string
	stored       []byte
}

// holes returns an object for each place of a kind at which the API server stores a value that the Go type does not have.
func holes(t *testing.T, s server, d decoder, into reflect.Type) []hole {
	t.Helper()
	var out []hole
	places(into, place{"", func(v any) any { return v }}, func(p place) {
		if p.path == "" || strings.HasPrefix(p.path, ".metadata") || p.path == ".kind" || p.path == ".apiVersion" {
			return // the API server decodes these of every object
		}
		for _, text := range wrong {
			var value any
			require.NoError(t, kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &value))
			obj, ok := runtime.DeepCopyJSONValue(p.build(value)).(map[string]any)
			require.True(t, ok)
			if !s.accepts(obj) {
				continue
			}
			obj["apiVersion"], obj["kind"] = d.typeMeta.APIVersion, d.typeMeta.Kind
			obj["metadata"] = map[string]any{"name": "x", "annotations": map[string]any{"a": "b"}}
			stored, err := json.Marshal(obj)
			require.NoError(t, err)
			if d.decode(stored) != nil {
				out = append(out, hole{p.path, text, stored})
			}
		}
	})
	return out
}

// olmScheme returns a scheme with the kinds of OLM and of Remit.
func olmScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, operatorsv2.AddToScheme, olmv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	return scheme
}

// eachKind calls visit for each version of the CustomResourceDefinitions that has a Go type.
func eachKind(t *testing.T, visit func(d decoder, s server, into reflect.Type)) {
	t.Helper()
	scheme := olmScheme(t)
	var files []string
	for _, pattern := range []string{"crds/operators.*.yaml", "extensions/crds/olm.*.yaml"} {
		found, err := filepath.Glob(filepath.Join("../../../manifests", pattern))
		require.NoError(t, err)
		files = append(files, found...)
	}
	require.Len(t, files, 10)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(raw, crd))
		for _, v := range crd.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
			if obj, err := scheme.New(gvk); err == nil {
				d := decoder{scheme, gvk, metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}}
				visit(d, serverOf(t, v.Schema.OpenAPIV3Schema), reflect.TypeOf(obj).Elem())
			}
		}
	}
}

// The schemas and the Go types are walked, so the test finds the holes that a later version of either adds. None of them may
// leave an object that clients cannot decode, and no object of which a part of the spec is missing may look complete.
func TestEveryStoredObjectCanBeDecoded(t *testing.T) {
	found := map[string]bool{}
	eachKind(t, func(d decoder, s server, into reflect.Type) {
		r := repairer{d.scheme}
		for _, h := range holes(t, s, d, into) {
			name := fmt.Sprintf("%s%s %s", d.kind.Kind, h.place, h.value)
			found[name] = true
			repaired, changed := r.check(h.stored)
			require.True(t, changed, name)
			require.NoError(t, d.decode(repaired), name)
			var meta metav1.PartialObjectMetadata
			require.NoError(t, json.Unmarshal(repaired, &meta))
			require.Equal(t, "x", meta.Name)
			require.Equal(t, "b", meta.Annotations["a"])
			meaningless := strings.HasPrefix(h.place, ".status") || d.kind.Kind == operatorsv1alpha1.CatalogSourceKind && h.place == ".spec.updateStrategy"
			require.Equal(t, !meaningless, budget.Refused(&meta) != nil, name)
		}
	})
	for _, known := range []string{
		`ClusterServiceVersion.spec.install.spec.deployments[].spec.template.metadata.labels ["x"]`, // no schema
		`ClusterServiceVersion.spec.version "abc"`,                                                  // a syntax
		`ClusterServiceVersion.spec.webhookdefinitions[].targetPort 3000000000`,                     // an integer of any size
		`CatalogSource.spec.updateStrategy {}`,                                                      // the decoder panics
		`OperatorCondition.spec.conditions[].lastTransitionTime []`,                                 // a list instead of a text with a format
	} {
		require.True(t, found[known], "%s is not one of %d", known, len(found))
	}
	for _, h := range slices.Sorted(maps.Keys(found)) {
		t.Log(h)
	}
}
