package apply

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// notTyped begins the API server's message about an object that does not fit the schema of its kind.
	notTyped = "failed to create typed patch object ("
	// notDeclared ends each line of it about a field that the schema does not have.
	notDeclared = ": field not declared in schema"
	// maxPath is the greatest length of a path that is looked at.
	maxPath = 1 << 10
)

// IsNotTyped reports whether the API server cannot read an object as what it says to be: fields have the wrong type, or are not
// declared. It answers so before it looks at anything else, with the code of an internal error.
func IsNotTyped(err error) bool { return mistakes(err) != nil }

// Undeclared returns the paths of fields that the API server refuses since their kind has no such fields, sorted; nil for any
// other error. It names some of several at a time.
func Undeclared(err error) []string {
	var out []string
	for _, line := range mistakes(err) {
		path, ok := strings.CutSuffix(strings.TrimSpace(line), notDeclared)
		if ok && strings.HasPrefix(path, ".") && len(path) <= maxPath {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
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
	return strings.Split(rest, "\n")
}

// Prune removes the field at a path, as Undeclared returns it, and reports whether there was one. A path names elements of lists by
// what they say: the field is removed from all elements, which have one schema.
func Prune(obj map[string]any, path string) bool {
	name, ok := strings.CutPrefix(path, ".")
	if !ok {
		return false
	}
	// Names may contain dots and brackets: the longest that there is.
	for end := len(name); end > 0; end-- {
		if end < len(name) && name[end] != '.' && name[end] != '[' {
			continue
		}
		value, there := obj[name[:end]]
		if !there {
			continue
		}
		if end == len(name) {
			delete(obj, name)
			return true
		}
		if pruneIn(value, name[end:]) {
			return true
		}
	}
	return false
}

func pruneIn(value any, path string) bool {
	switch v := value.(type) {
	case map[string]any:
		return Prune(v, path)
	case []any:
		end := elementEnd(path)
		if end == 0 {
			return false
		}
		pruned := false
		for _, element := range v {
			pruned = pruneIn(element, path[end:]) || pruned
		}
		return pruned
	}
	return false
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
