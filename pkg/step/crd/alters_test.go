package crd

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestDescribesChangesToExistingObjects(t *testing.T) {
	const v1 = `{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string}, l: {type: array, items: {type: object, properties: {b: {type: string}}}}, m: {type: object, additionalProperties: {type: string}}}}}}`
	crd := func(versions string) *definition {
		out := &definition{}
		require.NoError(t, yaml.UnmarshalStrict([]byte("{spec: {versions: ["+versions+"]}}"), out), versions)
		return out
	}
	for name, row := range map[string]struct {
		next string
		want []string
	}{
		"nothing":                    {v1, nil},
		"an additional field":        {`{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string}, n: {type: string}, l: {type: array, items: {type: object, properties: {b: {type: string}}}}, m: {type: object, additionalProperties: {type: string}}}}}}`, nil},
		"an additional version":      {v1 + `, {name: v2, served: true, storage: false}`, nil},
		"all fields preserved":       {`{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`, nil},
		"a default":                  {`{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string, default: x}, l: {type: array, items: {type: object, properties: {b: {type: string}}}}, m: {type: object, additionalProperties: {type: string}}}}}}`, []string{`changes defaults in version "v1"`}},
		"a default of a new field":   {`{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string}, l: {type: array, items: {type: object, properties: {b: {type: string}, c: {type: string, default: x}}}}, m: {type: object, additionalProperties: {type: string}}}}}}`, []string{`changes defaults in version "v1"`}},
		"a removed field":            {`{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {l: {type: array, items: {type: object, properties: {b: {type: string}}}}, m: {type: object, additionalProperties: {type: string}}}}}}`, []string{`removes fields in version "v1"`}},
		"a removed field of items":   {`{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string}, l: {type: array, items: {type: object}}, m: {type: object, additionalProperties: {type: string}}}}}}`, []string{`removes fields in version "v1"`}},
		"a map without values":       {`{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string}, l: {type: array, items: {type: object, properties: {b: {type: string}}}}, m: {type: object}}}}}`, []string{`removes fields in version "v1"`}},
		"another storage version":    {`{name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}, {name: v2, served: true, storage: true}`, []string{`stores objects in version "v2" instead of "v1"`}},
		"a version not served":       {`{name: v1, served: false, storage: true}`, []string{`no longer serves version "v1"`}},
		"another version\nof a kind": {`{name: "v2\n", served: true, storage: true}`, []string{`stores objects in version "v2\n" instead of "v1"`, `no longer serves version "v1"`}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.want, Alterations(crd(v1), crd(row.next))) })
	}
}
