package status

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// texts contains the names, in lower case, of the fields of a status that are written for people: messages, and the times that change
// with them.
var texts = map[string]bool{
	"message": true, "lastupdated": true, "lastupdatetime": true, "lasttransitiontime": true, "lastheartbeattime": true,
}

func isText(field string) bool { return texts[strings.ToLower(field)] }

func isEqual(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// isEqualButTexts reports whether two values of a status are equal except for texts at any depth. It copies nothing, because a status
// can have the size of an object.
func isEqualButTexts(a, b reflect.Value) bool {
	switch {
	case !a.IsValid() || !b.IsValid():
		return a.IsValid() == b.IsValid()
	case a.Type() != b.Type():
		return false
	}
	switch a.Kind() {
	case reflect.Struct:
		return areStructsEqual(a, b)
	case reflect.Map:
		return areMapsEqual(a, b)
	case reflect.Slice:
		return areSlicesEqual(a, b)
	case reflect.Pointer, reflect.Interface:
		return isEqualButTexts(a.Elem(), b.Elem())
	}
	return isEqual(a.Interface(), b.Interface())
}

// areStructsEqual compares the fields of two structs. Types with fields that are not exported, such as times, are compared as a whole.
func areStructsEqual(a, b reflect.Value) bool {
	for i := range a.NumField() {
		if !a.Type().Field(i).IsExported() || a.Type().Field(i).Anonymous {
			return isEqual(a.Interface(), b.Interface())
		}
	}
	for i := range a.NumField() {
		if !isText(a.Type().Field(i).Name) && !isEqualButTexts(a.Field(i), b.Field(i)) {
			return false
		}
	}
	return true
}

// areMapsEqual compares two maps. A text that only one of them has is a difference.
func areMapsEqual(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for _, key := range a.MapKeys() {
		of := b.MapIndex(key)
		if !of.IsValid() {
			return false
		}
		isField := key.Kind() == reflect.String && isText(key.String())
		if !isField && !isEqualButTexts(a.MapIndex(key), of) {
			return false
		}
	}
	return true
}

func areSlicesEqual(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !isEqualButTexts(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}
