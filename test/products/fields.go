package products

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Field is a list, map or text in an object.
type Field struct {
	// Path names the field, for example "spec.install.spec.deployments[].name".
	Path string
	// at contains the indexes of the struct fields on the way; -1 stands for the first entry of a list.
	at []int
}

// maxDepth is the maximum number of lists on the way to a field, including itself. Lists below are as long as their text.
const maxDepth = 3

// Fields returns the lists and maps in a type. A type that occurs several times, such as that of containers and init
// containers, is visited once within lists, in the field with the shortest name.
func Fields(t reflect.Type) []Field {
	w := walk{visited: map[reflect.Type]bool{}}
	w.visit(t, Field{}, 0)
	return w.found
}

// FieldsAndTexts also returns the texts, which a list can repeat as well.
func FieldsAndTexts(t reflect.Type) []Field {
	w := walk{visited: map[reflect.Type]bool{}, texts: true}
	w.visit(t, Field{}, 0)
	return w.found
}

type walk struct {
	visited map[reflect.Type]bool
	texts   bool
	found   []Field
}

func (w *walk) visit(t reflect.Type, f Field, depth int) {
	switch t.Kind() {
	case reflect.Pointer:
		w.visit(t.Elem(), f, depth)
	case reflect.Struct:
		if depth > 0 && w.visited[t] || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
			return
		}
		w.visitFields(t, f, depth)
	case reflect.Map:
		w.found = append(w.found, f)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			w.text(f)
			return
		}
		w.found = append(w.found, f)
		if depth+1 < maxDepth {
			w.visit(t.Elem(), f.below("[]", -1), depth+1)
		}
	case reflect.String:
		w.text(f)
	default: // neither a list nor a map
	}
}

func (w *walk) text(f Field) {
	if w.texts {
		w.found = append(w.found, f)
	}
}

func (w *walk) visitFields(t reflect.Type, f Field, depth int) {
	w.visited[t] = true
	for _, i := range shortestFirst(t) {
		name := nameIn(t, i)
		if t.Field(i).IsExported() && name != "-" && name != "status" && name != "managedFields" {
			w.visit(t.Field(i).Type, f.below(name, i), depth)
		}
	}
}

func nameIn(t reflect.Type, i int) string {
	name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
	return name
}

// shortestFirst returns the indexes of a struct's fields, sorted by the lengths of their names.
func shortestFirst(t reflect.Type) []int {
	out := make([]int, t.NumField())
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int { return len(nameIn(t, a)) - len(nameIn(t, b)) })
	return out
}

func (f Field) below(name string, index int) Field {
	sep := "."
	if f.Path == "" || name == "[]" || name == "" {
		sep = ""
	}
	return Field{Path: f.Path + sep + name, at: append(slices.Clone(f.at), index)}
}

// FillEmpty adds entries to the field of an object that are as small as possible, such as "{}", until they are about size bytes long or
// take about most bytes of memory. The field must be a list or a map.
func (f Field) FillEmpty(object any, size, most int) {
	v := f.in(object)
	entry := reflect.New(v.Type().Elem()).Elem()
	if entry.Kind() == reflect.Pointer {
		entry.Set(reflect.New(entry.Type().Elem()))
	}
	n := most / max(int(entry.Type().Size()), 1)
	if v.Kind() == reflect.Slice {
		n = min(n, size/len("{},"))
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := 0; i < n && entry.Kind() == reflect.Pointer; i++ {
			v.Index(i).Set(reflect.New(entry.Type().Elem()))
		}
		return
	}
	for i := range min(size/len(`"a10000":{},`), n) {
		v.SetMapIndex(reflect.ValueOf(nameOf(i+1)).Convert(v.Type().Key()), entry)
	}
}

// Fill adds different entries to the field of an object until they are about size bytes long. It keeps existing entries. A text
// gets this length.
func (f Field) Fill(object any, size int) {
	v := f.in(object)
	if isText(v.Type()) {
		fillText(v, size)
		return
	}
	each := lengthOf(entryOf(v.Type().Elem(), 0x10000)) + 1
	if v.Kind() == reflect.Map {
		each += len(`"a10000":`)
	}
	for i := range size / each {
		if v.Kind() == reflect.Map {
			v.SetMapIndex(reflect.ValueOf(nameOf(i+1)).Convert(v.Type().Key()), entryOf(v.Type().Elem(), i+1))
			continue
		}
		v.Set(reflect.Append(v, entryOf(v.Type().Elem(), i+1)))
	}
}

// in returns the field in an object. It adds what is missing on the way, and an empty map.
func (f Field) in(object any) reflect.Value {
	v := reflect.ValueOf(object).Elem()
	for _, i := range f.at {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		if i >= 0 {
			v = v.Field(i)
			continue
		}
		if v.Len() == 0 {
			v.Set(reflect.Append(v, entryOf(v.Type().Elem(), 0)))
		}
		v = v.Index(0)
	}
	for v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() == reflect.Map && v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	return v
}

func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func fillText(v reflect.Value, size int) {
	text := strings.Repeat("x", size)
	switch {
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`"` + text + `"`))
	default:
		v.SetBytes([]byte(text)[:size*3/4]) // the text in base64
	}
}

func nameOf(i int) string { return fmt.Sprintf("a%x", i) }

func lengthOf(v reflect.Value) int {
	text, _ := json.Marshal(v.Interface())
	return len(text)
}

// entryOf returns the smallest entry of a list that differs from the others: a struct gets a name.
func entryOf(t reflect.Type, i int) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		v.SetString(nameOf(i))
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(entryOf(t.Elem(), i))
	case reflect.Struct:
		for k := range t.NumField() {
			if field := v.Field(k); t.Field(k).IsExported() && field.Kind() == reflect.String {
				field.SetString(nameOf(i))
				break
			}
		}
	default: // any entry
	}
	return v
}
