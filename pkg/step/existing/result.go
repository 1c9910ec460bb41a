package existing

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Limits of what a Result tells.
const (
	// MaxNamed is how many objects it names.
	MaxNamed = 5
	// MaxViolations is how many it tells of each, MaxField how many bytes of a field's path.
	MaxViolations = 3
	MaxField      = 120
)

// Tells says whether objects of a namespace may be told of by name; "" is for objects of the whole cluster.
type Tells func(namespace string) bool

// Result is what was found of one version's objects, whoever may be told of it.
type Result struct {
	CRD, Version string
	// Unread says that not all objects were looked at.
	Unread bool

	broken []broken
}

// broken are objects that the new schema would refuse, all of one namespace.
type broken struct {
	namespace string
	count     int
	// first are words for the first MaxNamed of them.
	first []string
}

func (r *Result) add(obj *unstructured.Unstructured, violations []Violation) {
	if len(violations) == 0 {
		return
	}
	if n := len(r.broken); n == 0 || r.broken[n-1].namespace != obj.GetNamespace() { // they come namespace by namespace
		r.broken = append(r.broken, broken{namespace: obj.GetNamespace()})
	}
	last := &r.broken[len(r.broken)-1]
	last.count++
	if len(last.first) < MaxNamed {
		last.first = append(last.first, describe(obj, violations))
	}
}

// Refuses says that there is something in the way of the new schema.
func (r *Result) Refuses() bool { return len(r.broken) > 0 }

// Err says what is in the way of the new schema, as far as it may be told; nil where nothing is. It begins in the
// words of the contract (1.5).
func (r *Result) Err(tells Tells) error {
	if !r.Refuses() {
		return nil
	}
	told, untold := 0, 0
	var parts []string
	for _, b := range r.broken {
		if !tells(b.namespace) {
			untold += b.count
			continue
		}
		told += b.count
		parts = append(parts, b.first[:min(len(b.first), MaxNamed-len(parts))]...)
	}
	if more := told - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	if untold > 0 {
		parts = append(parts, fmt.Sprintf("%d outside of the namespaces that the OperatorGroup selects and its account may read", untold))
	}
	least := ""
	if r.Unread {
		least = "at least "
	}
	return fmt.Errorf("error validating existing CRs against new CRD's schema for %q: updated validation is too restrictive: "+
		"%s%d object(s) would be invalid in version %s: %s", r.CRD, least, told+untold, r.Version, strings.Join(parts, ", "))
}

// describe names an object and says what is wrong with it.
func describe(obj *unstructured.Unstructured, violations []Violation) string {
	name := obj.GetName()
	if namespace := obj.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	var words []string
	for _, v := range violations[:min(len(violations), MaxViolations)] {
		words = append(words, v.String())
	}
	if more := len(violations) - MaxViolations; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return name + " (" + strings.Join(words, "; ") + ")"
}

func (v Violation) String() string {
	path := v.Field
	if len(path) > MaxField {
		path = strings.ToValidUTF8(path[:MaxField], "") + "…"
	}
	if path == "" {
		return v.Kind
	}
	return path + ": " + v.Kind
}
