package compact

import (
	"reflect"
	"sync"
)

// Limits of the strings that a Strings shares. If they are exceeded, it starts again with none, so that strings of deleted objects
// do not stay in memory. Strings that are used often are soon shared again.
const (
	maxStrings = 2048
	maxBytes   = 512 << 10
	// maxLength is the maximum length of a string that is shared. An operator's icon and examples are usually smaller.
	maxLength = 128 << 10
)

// Strings makes equal strings of different objects share memory. The zero value is ready to use.
type Strings struct {
	mu    sync.Mutex
	known map[string]string
	bytes int
}

// Compact replaces the strings in a decoded object, including keys and values of maps, with equal strings that share memory,
// and removes unused capacity from slices. It follows pointers, and changes only exported fields. obj is a pointer. The object must
// not be used by other goroutines. A large object does not block other calls: only share holds the lock.
func (s *Strings) Compact(obj any) { s.visit(reflect.ValueOf(obj)) }

// share returns a known string that is equal to text, or else text.
func (s *Strings) share(text string) string {
	if text == "" || len(text) > maxLength {
		return text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[text]; ok {
		return known
	}
	if s.known == nil || len(s.known) >= maxStrings || s.bytes+len(text) > maxBytes {
		s.known, s.bytes = map[string]string{}, 0
	}
	s.known[text] = text
	s.bytes += len(text)
	return text
}

func (s *Strings) visit(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s.share(v.String()))
	case reflect.Pointer:
		s.visit(v.Elem())
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(s.compacted(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				s.visit(field)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			s.visit(v.Index(i))
		}
	case reflect.Slice:
		s.visitSlice(v)
	case reflect.Map:
		s.visitMap(v)
	default: // contains no strings
	}
}

// visitSlice reduces the capacity of a slice to its length, except for bytes, which decoders allocate exactly.
func (s *Strings) visitSlice(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return
	}
	if v.Cap() > v.Len() {
		exact := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(exact, v)
		v.Set(exact)
	}
	for i := range v.Len() {
		s.visit(v.Index(i))
	}
}

// visitMap replaces a map. An assignment to an existing key could make the map grow.
func (s *Strings) visitMap(v reflect.Value) {
	if v.Len() == 0 {
		return
	}
	if texts, ok := v.Interface().(map[string]string); ok { // the usual case, without reflection
		shared := make(map[string]string, len(texts))
		for key, value := range texts {
			shared[s.share(key)] = s.share(value)
		}
		v.Set(reflect.ValueOf(shared).Convert(v.Type()))
		return
	}
	shared := reflect.MakeMapWithSize(v.Type(), v.Len())
	for entries := v.MapRange(); entries.Next(); {
		shared.SetMapIndex(s.compacted(entries.Key()), s.compacted(entries.Value()))
	}
	v.Set(shared)
}

// compacted returns a compact copy of a value that cannot be changed itself.
func (s *Strings) compacted(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	s.visit(out)
	return out
}
