package server

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	aggregatoropenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
)

// definitions returns the schemas of the API. They are built from the Go types, so that `kubectl explain` lists the fields.
// The schemas of metadata are those that Kubernetes generates.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	out := aggregatoropenapi.GetOpenAPIDefinitions(ref)
	for name, object := range map[string]any{
		packagesv1.PackageManifest{}.OpenAPIModelName(): packagesv1.PackageManifest{},
		packagesv1.PackageCatalog{}.OpenAPIModelName():  packagesv1.PackageCatalog{},
	} {
		schema := schemaOf(reflect.TypeOf(object))
		schema.Properties["metadata"] = reference(ref, metav1.ObjectMeta{}.OpenAPIModelName())
		out[name] = common.OpenAPIDefinition{Schema: schema, Dependencies: []string{metav1.ObjectMeta{}.OpenAPIModelName()}}
	}
	for list, item := range map[string]string{
		packagesv1.PackageManifestList{}.OpenAPIModelName(): packagesv1.PackageManifest{}.OpenAPIModelName(),
		packagesv1.PackageCatalogList{}.OpenAPIModelName():  packagesv1.PackageCatalog{}.OpenAPIModelName(),
	} {
		schema := object()
		schema.Properties["apiVersion"], schema.Properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
		schema.Properties["metadata"] = reference(ref, metav1.ListMeta{}.OpenAPIModelName())
		one := reference(ref, item)
		schema.Properties["items"] = *spec.ArrayProperty(&one)
		schema.Required = []string{"items"}
		out[list] = common.OpenAPIDefinition{Schema: schema, Dependencies: []string{metav1.ListMeta{}.OpenAPIModelName(), item}}
	}
	return out
}

func object() spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{}}}
}

func reference(ref common.ReferenceCallback, name string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}}
}

// schemaOf returns the schema of a Go type whose JSON encoding follows its fields.
func schemaOf(t reflect.Type) spec.Schema {
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return spec.Schema{} // any value, as JSON
		}
		item := schemaOf(t.Elem())
		return *spec.ArrayProperty(&item)
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.String:
		return *spec.StringProperty()
	case reflect.Bool:
		return *spec.BooleanProperty()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return *spec.Int64Property()
	case reflect.Map:
		value := schemaOf(t.Elem())
		return *spec.MapProperty(&value)
	case reflect.Struct:
		return structSchema(t)
	}
	return spec.Schema{} // any value
}

func structSchema(t reflect.Type) spec.Schema {
	if _, ok := reflect.New(t).Interface().(interface{ MarshalJSON() ([]byte, error) }); ok {
		return *spec.StringProperty() // times and versions
	}
	out := object()
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case options == "inline" && name == "", field.Anonymous && name == "":
			for key, value := range structSchema(field.Type).Properties {
				out.Properties[key] = value
			}
		case name != "" && name != "-" && name != "metadata":
			out.Properties[name] = schemaOf(field.Type)
		}
	}
	return out
}
