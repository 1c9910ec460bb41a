package bundle

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/message"
)

// isName reports whether a field of this name contains the name of something, or a part of a name, rather than text for people. Reports
// and messages repeat such strings.
func isName(field string) bool {
	switch field {
	case "name", "namespace", "kind", "group", "apiGroup", "version", "apiVersion", "image", "replaces", "skips", "key", "topologyKey", "resource", "type",
		"verbs", "apiGroups", "apiVersions", "resources", "resourceNames", "nonResourceURLs", "operations", "conversionCRDs", "webhookPath", "minKubeVersion":
		return true
	}
	return strings.HasSuffix(field, "Name") && field != "displayName"
}

// isKeyed reports whether the keys in a field of this name are keys of labels or annotations.
func isKeyed(field string) bool {
	switch field {
	case "label", "labels", "annotations", "matchLabels", "nodeSelector":
		return true
	}
	return false
}

// forPeople reports whether a type describes an operator for people, even in fields that are called name. The API server allows spaces in
// the names of environment variables.
func forPeople(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[operatorsv1alpha1.Maintainer](), reflect.TypeFor[operatorsv1alpha1.AppLink](), reflect.TypeFor[operatorsv1alpha1.Icon](),
		reflect.TypeFor[operatorsv1alpha1.SpecDescriptor](), reflect.TypeFor[operatorsv1alpha1.StatusDescriptor](), reflect.TypeFor[operatorsv1alpha1.ActionDescriptor](),
		reflect.TypeFor[operatorsv1alpha1.APIResourceReference](), reflect.TypeFor[operatorsv1alpha1.RelatedImage](),
		reflect.TypeFor[corev1.HTTPHeader](), reflect.TypeFor[corev1.EnvVar]():
		return true
	}
	return false
}

// CheckNames returns an error for the first name, or key of a label or annotation, in the fields of a typed object that contains white
// space or control characters. The error begins with the path of the field, below the given path. Texts for people are not checked.
func CheckNames(path string, obj any) error {
	if err := checkNames("", reflect.ValueOf(obj)); err != nil {
		return errors.New(strings.TrimPrefix(path+err.Error(), "."))
	}
	return nil
}

// checkNames checks the value of a field. The error begins with the path below the field.
func checkNames(field string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return checkNames(field, v.Elem())
		}
	case reflect.String:
		if isName(field) {
			return message.CheckWord("", v.String())
		}
	case reflect.Slice:
		return checkList(field, v)
	case reflect.Map:
		return checkMap(field, v)
	case reflect.Struct:
		return checkFields(v)
	}
	return nil
}

func checkList(field string, v reflect.Value) error {
	switch element := v.Type().Elem(); {
	case element.Kind() == reflect.Uint8, element.Kind() == reflect.String && !isName(field), forPeople(element):
		return nil
	}
	for i := range v.Len() {
		if err := checkNames(field, v.Index(i)); err != nil {
			return fmt.Errorf("[%d]%w", i, err)
		}
	}
	return nil
}

func checkMap(field string, v reflect.Value) error {
	if !isKeyed(field) {
		return nil
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		if err := checkKey(key.String()); err != nil {
			return fmt.Errorf(": %w", err)
		}
	}
	return nil
}

func checkFields(v reflect.Value) error {
	t := v.Type()
	if forPeople(t) {
		return nil
	}
	for i := range v.NumField() {
		value := v.Field(i)
		if !t.Field(i).IsExported() || value.IsZero() {
			continue
		}
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if err := checkNames(name, value); err != nil && name != "" {
			return fmt.Errorf(".%s%w", name, err)
		} else if err != nil {
			return err // the field is inlined
		}
	}
	return nil
}

// checkKeys checks the keys of labels or annotations.
func checkKeys[T any](all map[string]T) error {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if err := checkKey(key); err != nil {
			return err
		}
	}
	return nil
}

func checkKey(key string) error {
	// As in the API server, the prefix of an annotation may contain capital letters.
	if problems := content.IsLabelKey(strings.ToLower(key)); len(problems) > 0 {
		return fmt.Errorf("key %q: %s", message.Start(key), problems[0])
	}
	return nil
}

// checkType checks the strings by which all messages identify an object.
func checkType(obj *unstructured.Unstructured) error {
	return errors.Join(message.CheckWord("kind", obj.GetKind()), message.CheckWord("apiVersion", obj.GetAPIVersion()))
}
