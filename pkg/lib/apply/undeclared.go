package apply

import (
	"errors"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/lib/message"
)

const (
	// notTyped is the prefix of the API server's message about an object that does not match the schema of its kind.
	notTyped = "failed to create typed patch object ("
	// notDeclared is the suffix of each line about a field that is not in the schema.
	notDeclared = ": field not declared in schema"
	// severalMistakes precedes the lines of a message about several mistakes. Each of these lines begins with indent.
	severalMistakes = "errors:\n"
	indent          = "  "
	// maxPath is the maximum length, in bytes, of a path in a message.
	maxPath = 1 << 10
	// maxNamed is the maximum number of fields that a message may name.
	maxNamed = 1_000
	// maxLookups is the maximum number of names that Undeclared looks up, and of list elements that it examines, for
	// one message.
	maxLookups = 1 << 16
)

// IsNotTyped reports whether an error means that the API server cannot decode an object because fields have the wrong
// type or are not declared. The API server reports this as an internal error, before any other check.
func IsNotTyped(err error) bool { return mistakes(err) != nil }

// Undeclared returns the fields of a sent object that the API server refuses because they are not in the schema, and the number
// of times that the message names a field. The message names a field of a list once for each list element. For other errors,
// Undeclared returns nil and 0.
//
// The message contains names that an untrusted author chose. It is therefore used only if every line identifies
// exactly one field of the object, and if none of these fields is part of the object's type or metadata.
func Undeclared(err error, sent map[string]any) (fields []Field, named int) {
	lines := mistakes(err)
	if len(lines) > maxNamed {
		return nil, 0
	}
	f := finder{left: maxLookups}
	seen := map[string]bool{}
	for _, line := range lines {
		path, ok := strings.CutSuffix(line, notDeclared)
		if !ok || len(path) > maxPath {
			return nil, 0
		}
		if short := shorten(path); !seen[short] { // if another field has the same short path, the next error names that field
			seen[short] = true
			field := f.fieldAt(sent, path)
			if field == nil || field.isIdentity() {
				return nil, 0
			}
			fields = append(fields, field)
		}
	}
	if _, odd := OddName(sent); odd {
		return nil, 0
	}
	slices.SortFunc(fields, slices.Compare)
	return slices.CompactFunc(fields, slices.Equal), len(lines)
}

// mistakes returns the lines of the API server's message about an object that does not match its schema, or nil for
// other errors.
func mistakes(err error) []string {
	var st apierrors.APIStatus
	if !errors.As(err, &st) {
		return nil
	}
	rest, ok := strings.CutPrefix(st.Status().Message, notTyped)
	if !ok {
		return nil
	}
	_, rest, _ = strings.Cut(rest, "): ") // skip the object's name and kind
	several, ok := strings.CutPrefix(rest, severalMistakes+indent)
	if !ok {
		return []string{rest}
	}
	return strings.Split(several, "\n"+indent)
}

// OddName returns the alphabetically first field name, at any depth, that contains control or invisible characters: such a name
// could add lines to a text that includes it. odd is false if there is none. The caller must limit the nesting of
// value.
func OddName(value any) (name string, odd bool) {
	found := func(n string) {
		if !odd || n < name {
			name, odd = n, true
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			if !message.IsPlain(key) {
				found(key)
			}
			if n, isOdd := OddName(below); isOdd {
				found(n)
			}
		}
	case []any:
		for _, element := range v {
			if n, isOdd := OddName(element); isOdd {
				found(n)
			}
		}
	}
	return name, odd
}

// Field is the path of a field: the names of its parents and its own name, each preceded by a dot, with eachElement
// after the name of a list. A Field refers to all elements of a list, because they have the same schema.
type Field []string

const eachElement = "[]"

func (f Field) String() string { return strings.Join(f, "") }

// isIdentity reports whether the field is part of the object's type or metadata.
func (f Field) isIdentity() bool {
	return slices.Contains([]string{".apiVersion", ".kind", ".metadata"}, f[0])
}

// Remove removes the field from an object and reports whether the object had it.
func (f Field) Remove(obj any) bool {
	switch v := obj.(type) {
	case map[string]any:
		name, ok := strings.CutPrefix(f[0], ".")
		below, exists := v[name]
		if !ok || !exists {
			return false
		}
		if len(f) > 1 {
			return f[1:].Remove(below)
		}
		delete(v, name)
		return true
	case []any:
		removed := false
		for _, element := range v {
			removed = len(f) > 1 && f[0] == eachElement && f[1:].Remove(element) || removed
		}
		return removed
	}
	return false
}

// finder finds the fields of an object to which paths in the API server's message refer.
type finder struct {
	left int
	ways map[string]Field
}

// fieldAt returns the field at a path, or nil if there is none or the path is ambiguous. A path can be ambiguous because
// names can contain dots and brackets.
func (f *finder) fieldAt(obj map[string]any, path string) Field {
	f.ways = map[string]Field{}
	f.find(obj, path, nil)
	if len(f.ways) != 1 || f.left < 0 {
		return nil
	}
	return slices.Collect(maps.Values(f.ways))[0]
}

func (f *finder) find(value any, path string, way Field) {
	switch v := value.(type) {
	case map[string]any:
		f.findName(v, path, way)
	case []any:
		end := elementEnd(path)
		for _, element := range v {
			if end == 0 || f.isExhausted() {
				return
			}
			f.find(element, path[end:], append(way, eachElement))
		}
	}
}

// findName looks up every name with which the path can begin.
func (f *finder) findName(obj map[string]any, path string, way Field) {
	if !strings.HasPrefix(path, ".") {
		return
	}
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != '.' && path[end] != '[' {
			continue
		}
		if f.isExhausted() {
			return
		}
		below, exists := obj[path[1:end]]
		switch to := append(way, path[:end]); {
		case exists && end == len(path):
			f.ways[strings.Join(to, "\x00")] = slices.Clone(to)
		case exists:
			f.find(below, path[end:], to)
		}
	}
}

// isExhausted counts a lookup and reports whether the search must stop, because too many lookups were made or the path
// is ambiguous.
func (f *finder) isExhausted() bool {
	f.left--
	return f.left < 0 || len(f.ways) > 1
}

// shorten replaces the list elements in a path with eachElement, as far as it can recognize them without the object.
func shorten(path string) string {
	var b strings.Builder
	for {
		start := strings.IndexByte(path, '[')
		if start < 0 {
			return b.String() + path
		}
		end := elementEnd(path[start:])
		if end == 0 {
			return b.String() + path
		}
		b.WriteString(path[:start] + eachElement)
		path = path[start+end:]
	}
}

// elementEnd returns the length of the list element at the beginning of a path: [3], [name="a"], [port=80,protocol="TCP"]. It
// returns 0 if there is none.
func elementEnd(path string) int {
	if !strings.HasPrefix(path, "[") {
		return 0
	}
	quoted := false
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			return i + 1
		}
	}
	return 0
}
