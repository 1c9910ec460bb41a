package apply

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// notTyped begins the API server's message about an object that does not fit the schema of its kind.
	notTyped = "failed to create typed patch object ("
	// notDeclared ends each line of it about a field that the schema does not have.
	notDeclared = ": field not declared in schema"
	// severalMistakes is the line before the others where the message has several; each other begins with indent.
	severalMistakes = "errors:\n"
	indent          = "  "
	// maxPath is the greatest length of a path that is looked at.
	maxPath = 1 << 10
	// maxNamed is the greatest number of lines of a message that is looked at.
	maxNamed = 1_000
	// maxLookups is how often Undeclared looks for a name in an object, or at an element of a list, for one message.
	maxLookups = 1 << 16
)

// IsNotTyped reports whether the API server cannot read an object as what it says to be: fields have the wrong type, or are not
// declared. It answers so before it looks at anything else, with the code of an internal error.
func IsNotTyped(err error) bool { return mistakes(err) != nil }

// Undeclared returns the fields of the object that was sent that the API server refuses since their kind has no such fields,
// and how many it named: of a list, it names the field of each element. There are none for any other error.
//
// The message repeats names as they are, and a stranger chose them. So it is believed as a whole or not at all: each line
// leads to a field of the object, in one way, and to none of what says what the object is and whose.
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
		if short := shorten(path); !seen[short] { // what is left out though it is another field, the API server names again
			seen[short] = true
			field := f.only(sent, path)
			if field == nil || field.says() {
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

// mistakes are the lines of the API server's message about an object that does not fit its schema.
func mistakes(err error) []string {
	var st apierrors.APIStatus
	if !errors.As(err, &st) {
		return nil
	}
	rest, ok := strings.CutPrefix(st.Status().Message, notTyped)
	if !ok {
		return nil
	}
	_, rest, _ = strings.Cut(rest, "): ") // the object's name and kind
	several, ok := strings.CutPrefix(rest, severalMistakes+indent)
	if !ok {
		return []string{rest}
	}
	return strings.Split(several, "\n"+indent)
}

// OddName returns the first, in their order, of the names of fields, at any depth, that hold control characters: text that
// repeats it has more lines than its author wrote. The nesting must be bounded.
func OddName(value any) (name string, odd bool) {
	found := func(n string) {
		if !odd || n < name {
			name, odd = n, true
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			if strings.ContainsFunc(key, unicode.IsControl) {
				found(key)
			}
			if n, is := OddName(below); is {
				found(n)
			}
		}
	case []any:
		for _, element := range v {
			if n, is := OddName(element); is {
				found(n)
			}
		}
	}
	return name, odd
}

// Field leads to a field: the names of the fields above it, each with a dot before it, and eachElement for a list on the way.
// All elements of a list, which have one schema, are meant.
type Field []string

const eachElement = "[]"

func (f Field) String() string { return strings.Join(f, "") }

// says reports whether the field is part of what says what the object is, and whose.
func (f Field) says() bool {
	return slices.Contains([]string{".apiVersion", ".kind", ".metadata"}, f[0])
}

// Remove takes the field from an object, and reports whether there was one.
func (f Field) Remove(obj map[string]any) bool { return f.remove(obj) }

func (f Field) remove(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		name, ok := strings.CutPrefix(f[0], ".")
		below, there := v[name]
		if !ok || !there {
			return false
		}
		if len(f) > 1 {
			return f[1:].remove(below)
		}
		delete(v, name)
		return true
	case []any:
		removed := false
		for _, element := range v {
			removed = len(f) > 1 && f[0] == eachElement && f[1:].remove(element) || removed
		}
		return removed
	}
	return false
}

// finder looks for fields by the paths that the API server writes.
type finder struct {
	left int
	ways map[string]Field
}

// only is the field that a path leads to; nil where there is none, or another way to read the path: names may contain dots and
// brackets.
func (f *finder) only(obj map[string]any, path string) Field {
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
			if end == 0 || f.over() {
				return
			}
			f.find(element, path[end:], append(way, eachElement))
		}
	}
}

// findName tries all names that the path may begin with.
func (f *finder) findName(obj map[string]any, path string, way Field) {
	if !strings.HasPrefix(path, ".") {
		return
	}
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != '.' && path[end] != '[' {
			continue
		}
		if f.over() {
			return
		}
		below, there := obj[path[1:end]]
		switch to := append(way, path[:end]); {
		case there && end == len(path):
			f.ways[strings.Join(to, "\x00")] = slices.Clone(to)
		case there:
			f.find(below, path[end:], to)
		}
	}
}

// over counts a lookup, and reports whether no more are worth it.
func (f *finder) over() bool {
	f.left--
	return f.left < 0 || len(f.ways) > 1
}

// shorten leaves out of a path what elements of lists say, as far as it can be told without the object.
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

// elementEnd is where the name of a list's element ends: [3], [name="a"], [port=80,protocol="TCP"]; 0 where there is none.
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
