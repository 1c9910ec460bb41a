package budget

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Size is the estimated size of a value or of several values, in bytes.
type Size struct {
	// Text is a lower bound for the length of the value as JSON.
	Text int64
	// Memory is the memory that the value takes when it is decoded, if it shares nothing with other values.
	Memory int64
	// Values is the number of structs, list entries, map entries and texts. Work that is linear in the value takes this
	// many steps.
	Values int64
}

// Plus returns the size of both values.
func (s Size) Plus(other Size) Size {
	return Size{s.Text + other.Text, s.Memory + other.Memory, s.Values + other.Values}
}

// Times returns the size of n copies.
func (s Size) Times(n int) Size {
	return Size{s.Text * int64(n), s.Memory * int64(n), s.Values * int64(n)}
}

// mapsPerDecoded is how many times the memory of a decoded object it may take as maps, see Decoded.
const mapsPerDecoded = 3

// Decoded returns the memory of an object of an API, for comparison with MaxDecodedBytes: that of the object or, if more, a third of
// what it takes when it is converted to maps, as JSONCost estimates it. A patch or an unstructured object needs such maps. In a list of
// {}, an entry has few bytes in the Go type, but as a map all fields that are not omitted.
func (s Size) Decoded() int64 {
	return max(s.Memory, (jsonBytes*s.Text+jsonValue*s.Values)/mapsPerDecoded)
}

// OfText returns the size of a text of n bytes.
func OfText(n int) Size { return Size{Text: int64(n) + 2, Memory: int64(n) + 16, Values: 1} }

// Memory of a map in addition to its entries, and the number of entries for which it reserves memory at a time.
const mapHeader, mapGroup = 56, 8

// Of returns the size of a value that was decoded from JSON: a Go type of an API, or what unstructured objects consist of.
// It follows pointers, does not allocate memory for the value, and takes time proportional to Values.
func Of(value any) Size {
	var s Size
	v := reflect.ValueOf(value)
	if !v.IsValid() {
		return s
	}
	s.Memory = bytesOf(v.Type())
	s.add(v)
	return s
}

// bytesOf returns the size of a value of a type, without what it refers to.
func bytesOf(t reflect.Type) int64 { return int64(t.Size()) } //nolint:gosec // no type is that large

// add adds what a value consists of. The memory of the value itself is counted where it is stored: in a struct, list or map.
func (s *Size) add(v reflect.Value) {
	s.Values++
	switch v.Kind() {
	case reflect.String:
		s.Text += int64(v.Len()) + 2
		s.Memory += int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			s.Text++
			return
		}
		if v = v.Elem(); v.Kind() != reflect.Pointer {
			s.Memory += bytesOf(v.Type())
		}
		s.add(v)
	case reflect.Struct:
		s.addStruct(v)
	case reflect.Slice, reflect.Array:
		s.addList(v)
	case reflect.Map:
		s.addMap(v)
	default:
		s.Text++
	}
}

func (s *Size) addStruct(v reflect.Value) {
	t := known.of(v.Type())
	before := s.Text
	s.Text++ // the braces, without the last comma
	for _, f := range t.fields {
		field := v.Field(f.index)
		if f.omits && field.IsZero() {
			continue
		}
		s.Text += int64(len(f.name)) + 4 // quotes, colon and comma
		if f.name == "" {
			s.Text -= 5 // embedded structs have no braces
		}
		s.add(field)
	}
	if t.encodesItself { // for example, a quantity, or JSON that is not decoded
		s.Text = before + 1 + rawBytes(v)
	}
	if v.Type() == quantity && !v.FieldByName("d").Field(0).IsNil() {
		s.Memory += decimalBytes
	}
}

// quantity is a type that keeps a number that is not a small multiple of a billionth as a pointer to a decimal number, which takes
// decimalBytes with its digits.
var quantity = reflect.TypeFor[resource.Quantity]()

const decimalBytes = 112

// rawBytes returns the number of bytes in the fields of a struct that encodes itself.
func rawBytes(v reflect.Value) (n int64) {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Uint8 {
			n += int64(f.Len())
		}
	}
	return n
}

func (s *Size) addList(v reflect.Value) {
	s.Text += int64(v.Len()) + 1
	if v.Kind() == reflect.Slice {
		s.Memory += int64(v.Len()) * bytesOf(v.Type().Elem())
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return
	}
	for i := range v.Len() {
		s.add(v.Index(i))
	}
}

func (s *Size) addMap(v reflect.Value) {
	s.Text++
	each := bytesOf(v.Type().Key()) + bytesOf(v.Type().Elem())
	s.Memory += mapHeader + int64(v.Len()+mapGroup-1)/mapGroup*mapGroup*each
	for all := v.MapRange(); all.Next(); {
		s.add(all.Key())
		s.Text += 2
		s.add(all.Value())
	}
}

// structure describes a struct.
type structure struct {
	fields []field
	// encodesItself is true if the fields do not determine the JSON.
	encodesItself bool
}

// field is a field that JSON contains. The name is empty for embedded structs, whose fields JSON contains instead.
type field struct {
	index int
	name  string
	// omits is true if JSON does not contain the zero value.
	omits bool
}

// structures caches the structs of the APIs.
type structures struct{ known sync.Map }

var known structures

func (s *structures) of(t reflect.Type) structure {
	if cached, ok := s.known.Load(t); ok {
		out, _ := cached.(structure)
		return out
	}
	out := structure{encodesItself: reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" {
			out.fields = append(out.fields, field{i, name, strings.Contains(options, "omit") || options == "inline"})
		}
	}
	s.known.Store(t, out)
	return out
}
