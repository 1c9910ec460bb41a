package injection

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxDepth bounds the nesting of the types that Places walks. A container of a Pod template of a ClusterServiceVersion is 8 levels deep.
const maxDepth = 14

// Place is a place in an object of a type: a field that is a string, or a key or value of a map.
type Place struct {
	Path string
	set  func(v reflect.Value, text string)
}

// Set writes a text into the place of the object that the pointer refers to, and adds missing parts of the object.
func (p Place) Set(pointer any, text string) { p.set(reflect.ValueOf(pointer).Elem(), text) }

// Places returns all places of a type, in the order of its fields. Types that contain themselves are walked once.
func Places[T any]() []Place { return places(reflect.TypeFor[T](), nil) }

func places(t reflect.Type, above []reflect.Type) []Place {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return []Place{{"", func(v reflect.Value, text string) {
			encoded, _ := json.Marshal(text)
			v.SetBytes(encoded)
		}}}
	case reflect.TypeFor[intstr.IntOrString]():
		return []Place{{"", func(v reflect.Value, text string) { v.Set(reflect.ValueOf(intstr.FromString(text))) }}}
	}
	switch t.Kind() {
	case reflect.String:
		return []Place{{"", func(v reflect.Value, text string) { v.SetString(text) }}}
	case reflect.Pointer:
		return placesOfPointer(t, above)
	case reflect.Slice:
		return placesOfSlice(t, above)
	case reflect.Map:
		return placesOfMap(t, above)
	case reflect.Struct:
		return placesOfStruct(t, above)
	}
	return nil
}

func placesOfPointer(t reflect.Type, above []reflect.Type) (out []Place) {
	for _, p := range places(t.Elem(), above) {
		out = append(out, Place{p.Path, func(v reflect.Value, text string) {
			if v.IsNil() {
				v.Set(reflect.New(t.Elem()))
			}
			p.set(v.Elem(), text)
		}})
	}
	return out
}

func placesOfSlice(t reflect.Type, above []reflect.Type) (out []Place) {
	for _, p := range places(t.Elem(), above) {
		out = append(out, Place{"[0]" + p.Path, func(v reflect.Value, text string) {
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(t, 1, 1))
			}
			p.set(v.Index(0), text)
		}})
	}
	return out
}

func placesOfMap(t reflect.Type, above []reflect.Type) (out []Place) {
	add := func(v reflect.Value, key string, value reflect.Value) {
		if v.IsNil() {
			v.Set(reflect.MakeMap(t))
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), value)
	}
	out = append(out, Place{"{key}", func(v reflect.Value, text string) { add(v, text, reflect.New(t.Elem()).Elem()) }})
	for _, p := range places(t.Elem(), above) {
		out = append(out, Place{"{value}" + p.Path, func(v reflect.Value, text string) {
			value := reflect.New(t.Elem()).Elem()
			p.set(value, text)
			add(v, "added", value)
		}})
	}
	return out
}

func placesOfStruct(t reflect.Type, above []reflect.Type) (out []Place) {
	if len(above) == maxDepth {
		return nil
	}
	for _, outer := range above {
		if outer == t {
			return nil
		}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil // quantities, times and versions, which have their own syntax
	}
	above = append(above[:len(above):len(above)], t)
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if !t.Field(i).IsExported() || name == "-" {
			continue
		}
		if name == "" && !t.Field(i).Anonymous {
			name = t.Field(i).Name
		}
		if name != "" {
			name = "." + name
		}
		for _, p := range places(t.Field(i).Type, above) {
			out = append(out, Place{name + p.Path, func(v reflect.Value, text string) { p.set(v.Field(i), text) }})
		}
	}
	return out
}
