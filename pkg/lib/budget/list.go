package budget

import (
	"fmt"
	"reflect"
)

// ListError is a list or map that has too many entries.
type ListError struct {
	// Field is the path of the list below the value that was checked.
	Field string
	// Len is the number of entries, and Max the largest number that is allowed.
	Len, Max int
}

func (e *ListError) Error() string {
	return fmt.Sprintf("%s has %d entries; at most %d are allowed", e.Field, e.Len, e.Max)
}

// CheckLists returns a *ListError if a list or map anywhere in a value has more than max entries.
func CheckLists(value any, max int) error {
	if e := longest(reflect.ValueOf(value), "", max); e != nil {
		return e
	}
	return nil
}

// longest returns the first list with more than max entries. It is checked before its entries are.
func longest(v reflect.Value, path string, max int) *ListError {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return longest(v.Elem(), path, max)
		}
	case reflect.Struct:
		for _, f := range known.of(v.Type()).fields {
			if field := v.Field(f.index); !field.IsZero() {
				if e := longest(field, join(path, f.name), max); e != nil {
					return e
				}
			}
		}
	case reflect.Slice, reflect.Map:
		if v.Type().Elem().Kind() != reflect.Uint8 && v.Len() > max {
			return &ListError{Field: path, Len: v.Len(), Max: max}
		}
		return longestInside(v, path, max)
	default: // has no entries
	}
	return nil
}

func longestInside(v reflect.Value, path string, max int) *ListError {
	if v.Kind() == reflect.Map {
		for all := v.MapRange(); all.Next(); {
			if e := longest(all.Value(), path, max); e != nil {
				return e
			}
		}
		return nil
	}
	for i := range v.Len() {
		if e := longest(v.Index(i), path, max); e != nil {
			return e
		}
	}
	return nil
}

func join(path, name string) string {
	switch {
	case path == "":
		return name
	case name == "":
		return path
	}
	return path + "." + name
}
