package existing

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// things returns a CustomResourceDefinition with version v1 and the schema for .spec.
func things(t *testing.T, spec string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	schema := &apiextensionsv1.JSONSchemaProps{}
	require.NoError(t, yaml.UnmarshalStrict([]byte("{type: object, properties: {spec: "+spec+"}}"), schema), spec)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
			}},
		},
	}
}

func compare(live, want *apiextensionsv1.CustomResourceDefinition) (*check, error) {
	return newCheck(schemaOf(live, "v1"), schemaOf(want, "v1"))
}

func thing(t *testing.T, spec string) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, yaml.Unmarshal([]byte("{apiVersion: example.com/v1, kind: Thing, metadata: {name: a, namespace: ns}, spec: "+spec+"}"), &out))
	// A client decodes whole numbers as integers.
	for k, v := range out["spec"].(map[string]any) {
		if f, ok := v.(float64); ok && f == float64(int64(f)) {
			out["spec"].(map[string]any)[k] = int64(f)
		}
	}
	return out
}

func TestObjectsAreValidatedWithTheNewSchema(t *testing.T) {
	const open = "{type: object, properties: {a: {type: string}, c: {type: integer}, l: {type: array, items: {type: string}}, m: {type: object, additionalProperties: {type: string}}}}"
	for _, row := range []struct {
		name, old, next, object string
		want                    []string
	}{
		{"valid", open, "{type: object, properties: {a: {type: string, maxLength: 3}}}", "{a: abc}", nil},
		{"too long", open, "{type: object, properties: {a: {type: string, maxLength: 3}}}", "{a: s3cr3t}", []string{"spec.a: Too long"}},
		{"required", open, "{type: object, required: [a], properties: {a: {type: string}}}", "{}", []string{"spec.a: Required value"}},
		{"required, with a default", open, "{type: object, required: [a], properties: {a: {type: string, default: x}}}", "{}", nil},
		{"required, null", open, "{type: object, required: [a], properties: {a: {type: string}}}", "{a: null}", []string{"spec.a: Required value"}},
		{"not one of", open, "{type: object, properties: {a: {type: string, enum: [x, y]}}}", "{a: s3cr3t}", []string{"spec.a: Unsupported value"}},
		{"another type", open, "{type: object, properties: {a: {type: integer}}}", "{a: s3cr3t}", []string{"spec.a: Invalid value"}},
		{"pattern", open, "{type: object, properties: {a: {type: string, pattern: '^x$'}}}", "{a: s3cr3t}", []string{"spec.a: Invalid value"}},
		{"several", open, "{type: object, properties: {a: {type: string, maxLength: 1}, c: {type: integer, maximum: 1}}}", "{a: s3cr3t, c: 9}",
			[]string{"spec.a: Too long", "spec.c: Invalid value"}},
		{"none of", open, "{type: object, properties: {a: {type: string}, c: {type: integer}}, oneOf: [{required: [a]}, {required: [c]}]}", "{a: s3cr3t, c: 9}",
			[]string{"Invalid value"}},
		{"unknown fields are pruned", open, "{type: object, maxProperties: 1, properties: {c: {type: integer}}}", "{a: s3cr3t, c: 9}", nil},
		{"a set", open, "{type: object, properties: {l: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}", "{l: [s3cr3t, s3cr3t]}",
			[]string{"spec.l[1]: Duplicate value"}},
		{"a rule", open, `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "self.a != 's3cr3t'", messageExpression: "'it is ' + self.a"}]}`,
			"{a: s3cr3t}", []string{"spec: Invalid value"}},
		{"a rule that is satisfied", open, `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "self.a == 's3cr3t'"}]}`, "{a: s3cr3t}", nil},
		{"a transition rule", open, `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "self.a != oldSelf.a"}]}`, "{a: s3cr3t}", nil},
		{"a rule that cannot be compiled here", open, `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "self.a.fromTheFuture()"}]}`,
			"{a: s3cr3t}", nil},
		{"a rule that fails", open, `{type: object, properties: {l: {type: array, items: {type: string}}}, x-kubernetes-validations: [{rule: "self.l[7] == 'x'"}]}`,
			"{l: [s3cr3t]}", []string{"spec: Invalid value"}},

		{"already invalid", "{type: object, properties: {a: {type: string, maxLength: 4}}}", "{type: object, properties: {a: {type: string, maxLength: 3}}}", "{a: s3cr3t}", nil},
		{"already invalid, and now also in another way", "{type: object, properties: {a: {type: string, maxLength: 4}, c: {type: integer}}}",
			"{type: object, required: [c], properties: {a: {type: string, maxLength: 4}, c: {type: integer}}}", "{a: s3cr3t}", []string{"spec.c: Required value"}},
		{"already violates a rule", `{type: object, properties: {c: {type: integer}}, x-kubernetes-validations: [{rule: "self.c < 3", message: less}]}`,
			`{type: object, properties: {c: {type: integer}}, x-kubernetes-validations: [{rule: "self.c < 3", message: less}, {rule: "self.c < 4", message: more}]}`,
			"{c: 9}", []string{"spec: Invalid value"}},
		{"valid under the new schema only, because the rule is evaluated", `{type: object, properties: {c: {type: integer, maximum: 3}}, x-kubernetes-validations: [{rule: "self.c < 3"}]}`,
			`{type: object, properties: {c: {type: integer}}, x-kubernetes-validations: [{rule: "self.c < 3"}]}`, "{c: 9}", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			object := thing(t, row.object)
			before := runtime.DeepCopyJSON(object)
			check, err := compare(things(t, row.old), things(t, row.next))
			require.NoError(t, err)
			var got []string
			for _, v := range check.violations(t.Context(), object) {
				got = append(got, v.String())
			}
			require.Equal(t, row.want, got)
			require.Equal(t, before, object)
			for _, text := range got {
				require.NotContains(t, text, "s3cr3t")
			}
		})
	}
}

func TestAnInvalidNewSchemaIsAnError(t *testing.T) {
	const broken, open = "{type: object, properties: {a: {type: string, oneOf: [{type: integer}]}}, $ref: x}", "{type: object, required: [a], properties: {a: {type: string}}}"
	_, err := compare(things(t, open), things(t, broken))
	require.Error(t, err)
	check, err := compare(things(t, broken), things(t, open))
	require.NoError(t, err)
	require.Len(t, check.violations(t.Context(), thing(t, "{}")), 1)
}
