package crd

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// schemaOf decodes a schema as written in a bundle.
func schemaOf(t *testing.T, text string) *props {
	t.Helper()
	out := &props{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), out), text)
	return out
}

// of returns a CustomResourceDefinition with version v1 and the schema for .spec.
func of(t *testing.T, spec string) *definition {
	t.Helper()
	return whole(t, "{type: object, properties: {spec: "+spec+"}}")
}

func whole(t *testing.T, text string) *definition {
	t.Helper()
	return &definition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schemaOf(t, text)},
	}}}}
}

func TestStricterIgnoresHarmlessChanges(t *testing.T) {
	for _, row := range []struct {
		name, old, next string
		harmless        bool
	}{
		{"the same", "{type: object}", "{type: object}", true},
		{"the same, formatted differently", `{default: {"a": 1, "b": 2}, type: object}`, `{type: object, default: {"b":2,"a":1}}`, true},
		{"descriptive fields", "{type: string, description: a}", "{type: string, description: b, title: c, example: d, externalDocs: {url: e}}", true},
		{"a different merge strategy for maps", "{type: object}", "{type: object, x-kubernetes-map-type: atomic}", true},
		{"another type", "{type: integer}", "{type: string}", false},
		{"a wider type", "{type: integer}", "{type: number}", false},

		{"an optional property", "{type: object}", "{type: object, properties: {a: {type: string, maxLength: 1}}}", true},
		{"an optional property with required children", "{type: object}", "{type: object, properties: {a: {type: object, required: [b], properties: {b: {type: string, default: x}}}}}", true},
		{"an optional property with a default", "{type: object}", "{type: object, properties: {a: {type: string, default: x}}}", true},
		{"a default that may exceed maxProperties", "{type: object, maxProperties: 1}", "{type: object, maxProperties: 1, properties: {a: {type: string, default: x}}}", false},
		{"a default that a rule may count", "{type: object, x-kubernetes-validations: [{rule: self.size() < 2}]}",
			"{type: object, x-kubernetes-validations: [{rule: self.size() < 2}], properties: {a: {type: string, default: x}}}", false},
		{"a default that an enclosing rule may count", "{type: object, properties: {b: {type: object}}, not: {required: [c]}}",
			"{type: object, properties: {b: {type: object, properties: {a: {type: string, default: x}}}}, not: {required: [c]}}", false},
		{"a default in the items of a set", "{type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic}}",
			"{type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string, default: x}}}}", false},
		{"a required property", "{type: object}", "{type: object, required: [a], properties: {a: {type: string}}}", false},
		{"a property where unknown ones were preserved", "{type: object, x-kubernetes-preserve-unknown-fields: true}",
			"{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}", false},
		{"a property in place of a map", "{type: object, additionalProperties: {type: string}}", "{type: object, properties: {a: {type: string}}}", false},
		{"a removed property", "{type: object, properties: {a: {type: string}}}", "{type: object}", false},
		{"a property that becomes required", "{type: object, properties: {a: {type: string}}}", "{type: object, required: [a], properties: {a: {type: string}}}", false},
		{"a property that becomes optional", "{type: object, required: [a], properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string}}}", true},
		{"a changed child property", "{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string, maxLength: 3}}}", false},
		{"unknown properties no longer preserved", "{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object}", false},
		{"a default", "{type: string}", "{type: string, default: b}", true},
		{"another default", "{type: string, default: a}", "{type: string, default: b}", true},
		{"a default for several fields", "{type: object, properties: {a: {type: string}}}", "{type: object, default: {}, properties: {a: {type: string}}}", false},
		{"a default in a map", "{type: object, additionalProperties: {type: string}}", "{type: object, additionalProperties: {type: string, default: a}}", false},
		{"a removed default", "{type: string, default: a}", "{type: string}", false},
		{"a default that a rule may check", "{type: object, x-kubernetes-validations: [{rule: '!has(self.a)'}], properties: {a: {type: string}}}",
			"{type: object, x-kubernetes-validations: [{rule: '!has(self.a)'}], properties: {a: {type: string, default: x}}}", false},

		{"a new bound", "{type: integer}", "{type: integer, maximum: 3}", false},
		{"a lower maximum", "{type: integer, maximum: 4}", "{type: integer, maximum: 3}", false},
		{"a higher maximum", "{type: integer, maximum: 3}", "{type: integer, maximum: 4}", true},
		{"a removed maximum", "{type: integer, maximum: 3, exclusiveMaximum: true}", "{type: integer}", true},
		{"a maximum that becomes exclusive", "{type: integer, maximum: 3}", "{type: integer, maximum: 3, exclusiveMaximum: true}", false},
		{"a maximum that becomes inclusive", "{type: integer, maximum: 3, exclusiveMaximum: true}", "{type: integer, maximum: 3}", true},
		{"a higher, exclusive maximum", "{type: integer, maximum: 3}", "{type: integer, maximum: 4, exclusiveMaximum: true}", true},
		{"a higher minimum", "{type: integer, minimum: 3}", "{type: integer, minimum: 4}", false},
		{"a lower minimum", "{type: integer, minimum: 4}", "{type: integer, minimum: 3}", true},
		{"a minimum that becomes exclusive", "{type: integer, minimum: 3}", "{type: integer, minimum: 3, exclusiveMinimum: true}", false},
		{"a divisor", "{type: integer, multipleOf: 2}", "{type: integer, multipleOf: 4}", false},
		{"shorter", "{type: string, maxLength: 4}", "{type: string, maxLength: 3}", false},
		{"longer", "{type: string, maxLength: 3}", "{type: string, maxLength: 4}", true},
		{"a higher minimum length", "{type: string, minLength: 3}", "{type: string, minLength: 4}", false},
		{"a lower minimum length", "{type: string, minLength: 4}", "{type: string, minLength: 3}", true},
		{"fewer items", "{type: array, maxItems: 4, items: {type: string}}", "{type: array, maxItems: 3, items: {type: string}}", false},
		{"a new minimum number of items", "{type: array, items: {type: string}}", "{type: array, minItems: 3, items: {type: string}}", false},
		{"a new maximum number of properties", "{type: object}", "{type: object, maxProperties: 3}", false},
		{"a new minimum number of properties", "{type: object}", "{type: object, minProperties: 3}", false},

		{"a pattern", "{type: string}", "{type: string, pattern: a}", false},
		{"another pattern", "{type: string, pattern: a}", "{type: string, pattern: a|b}", false},
		{"a removed pattern", "{type: string, pattern: a}", "{type: string}", true},
		{"a format", "{type: string}", "{type: string, format: date}", false},
		{"a removed format", "{type: string, format: date}", "{type: string}", true},
		{"null", "{type: string}", "{type: string, nullable: true}", true},
		{"null no longer allowed", "{type: string, nullable: true}", "{type: string}", false},
		{"a new enumeration", "{type: string}", "{type: string, enum: [a]}", false},
		{"more values", "{type: string, enum: [a]}", "{type: string, enum: [b, a]}", true},
		{"fewer values", "{type: string, enum: [b, a]}", "{type: string, enum: [a]}", false},
		{"any value", "{type: string, enum: [a]}", "{type: string}", true},

		{"items", "{type: array, items: {type: string}}", "{type: array, items: {type: string, maxLength: 3}}", false},
		{"items, wider", "{type: array, items: {type: string, maxLength: 3}}", "{type: array, items: {type: string}}", true},
		{"a set", "{type: array, items: {type: string}}", "{type: array, items: {type: string}, x-kubernetes-list-type: set}", false},
		{"different list map keys", "{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a], items: {type: object}}",
			"{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b], items: {type: object}}", false},
		{"stricter values of a map", "{type: object, additionalProperties: {type: string}}", "{type: object, additionalProperties: {type: string, maxLength: 3}}", false},
		{"wider values of a map", "{type: object, additionalProperties: {type: string, maxLength: 3}}", "{type: object, additionalProperties: {type: string}}", true},
		{"other properties no longer allowed", "{type: object, additionalProperties: true}", "{type: object, additionalProperties: false}", false},

		{"all of", "{type: string}", "{type: string, allOf: [{maxLength: 3}]}", false},
		{"fewer alternatives in oneOf", "{type: string, oneOf: [{maxLength: 3}, {minLength: 5}]}", "{type: string, oneOf: [{maxLength: 3}]}", false},
		{"anyOf removed", "{type: string, anyOf: [{maxLength: 3}]}", "{type: string}", true},
		{"not", "{type: string}", "{type: string, not: {enum: [a]}}", false},
		{"not removed", "{type: string, not: {enum: [a]}}", "{type: string}", true},
		{"a rule", "{type: object}", "{type: object, x-kubernetes-validations: [{rule: has(self.a)}]}", false},
		{"a rule with another message", "{type: object, x-kubernetes-validations: [{rule: has(self.a), message: a}]}",
			"{type: object, x-kubernetes-validations: [{rule: has(self.a), message: b}]}", true},
		{"a removed rule", "{type: object, x-kubernetes-validations: [{rule: has(self.a)}, {rule: has(self.b)}]}",
			"{type: object, x-kubernetes-validations: [{rule: has(self.b)}]}", true},
		{"a transition rule that also applies without an old object", "{type: object, x-kubernetes-validations: [{rule: self == oldSelf}]}",
			"{type: object, x-kubernetes-validations: [{rule: self == oldSelf, optionalOldSelf: true}]}", false},
		{"an embedded resource", "{type: object}", "{type: object, x-kubernetes-embedded-resource: true}", false},
		{"an embedded resource with constraints on its fields", "{type: object, x-kubernetes-embedded-resource: true}",
			"{type: object, x-kubernetes-embedded-resource: true, properties: {kind: {type: string, enum: [A]}}}", false},
		{"either type", "{type: string}", "{x-kubernetes-int-or-string: true}", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var want []string
			if !row.harmless {
				want = []string{"v1"}
			}
			require.Equal(t, want, Stricter(of(t, row.old), of(t, row.next)))
			require.Empty(t, Stricter(of(t, row.old), of(t, row.old)))
			require.Empty(t, Stricter(of(t, row.next), of(t, row.next)))
		})
	}
}

func TestFieldsOfEveryResourceNeedNoSchema(t *testing.T) {
	const bare, named = "{type: object}", "{type: object, properties: {apiVersion: {type: string}, kind: {type: string}, metadata: {type: object}}}"
	for next, harmless := range map[string]bool{
		named: true, bare: true,
		"{type: object, properties: {metadata: {type: object, properties: {name: {type: string, maxLength: 3}}}}}": false,
		"{type: object, properties: {metadata: {type: object, required: [name]}}}":                                 false,
		"{type: object, properties: {kind: {type: string, pattern: a}}}":                                           false,
	} {
		for _, old := range []string{bare, named} {
			require.Equal(t, harmless, len(Stricter(whole(t, old), whole(t, next))) == 0, "%s -> %s", old, next)
		}
	}
}

func TestStricterReportsOnlyVersionsThatRemainServed(t *testing.T) {
	const wide, narrow = "{type: string}", "{type: string, maxLength: 3}"
	with := func(d *definition, edits ...func(*definition)) *definition {
		for _, e := range edits {
			e(d)
		}
		return d
	}
	alsoV2 := func(d *definition) {
		v2 := d.Spec.Versions[0]
		v2.Name, v2.Storage = "v2", false
		d.Spec.Versions = append(d.Spec.Versions, v2)
	}
	unserved := func(d *definition) { d.Spec.Versions[0].Served = false }
	converted := func(d *definition) {
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	}
	storedIn := func(versions ...string) func(*definition) {
		return func(d *definition) { d.Status.StoredVersions = versions }
	}
	for _, row := range []struct {
		name       string
		live, want *definition
		versions   []string
	}{
		{"one", of(t, wide), of(t, narrow), []string{"v1"}},
		{"both", with(of(t, wide), alsoV2), with(of(t, narrow), alsoV2), []string{"v1", "v2"}},
		{"a new version", of(t, narrow), with(of(t, narrow), alsoV2), nil},
		{"a removed version", with(of(t, wide), alsoV2), of(t, wide), nil},
		{"a version that is no longer served", with(of(t, wide), alsoV2), with(of(t, narrow), alsoV2, unserved), []string{"v2"}},
		{"a version that was not served", with(of(t, wide), alsoV2, unserved), with(of(t, narrow), alsoV2), []string{"v2"}},
		{"converted by a webhook", with(of(t, wide), alsoV2, converted, storedIn("v1", "v2")), with(of(t, narrow), alsoV2), nil},
		{"newly converted by a webhook", with(of(t, wide), alsoV2, storedIn("v2", "v1")), with(of(t, narrow), alsoV2, converted), nil},
		{"converted by a webhook, all stored in one version", with(of(t, wide), alsoV2, converted, storedIn("v2")), with(of(t, narrow), alsoV2, converted), []string{"v2"}},
		{"previously without pruning", with(of(t, wide), func(d *definition) { d.Spec.PreserveUnknownFields = true }), of(t, wide), []string{"v1"}},
		{"a new schema", with(of(t, wide), func(d *definition) { d.Spec.Versions[0].Schema = nil }), of(t, wide), []string{"v1"}},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.versions, Stricter(row.live, row.want)) })
	}
	live, want := with(of(t, wide), alsoV2, converted, storedIn("v1", "v2")), with(of(t, narrow), alsoV2)
	require.Equal(t, []string{"v1", "v2"}, StricterButConverted(live, want))
	require.Empty(t, StricterButConverted(of(t, wide), of(t, narrow)), "no webhook")
	require.Empty(t, StricterButConverted(with(of(t, narrow), alsoV2, converted, storedIn("v1", "v2")), want), "an unchanged schema")
}
