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

// Result is what was found of one version's objects.
type Result struct {
	CRD, Version string
	// Told and Untold count the objects that the new schema would refuse: those that may be told of, and the others.
	Told, Untold int
	// Named are the first of those told.
	Named []Object
	// Unread says that there were more objects than are looked at.
	Unread bool
}

// Object is one that the new schema would refuse.
type Object struct {
	// Namespace is "" for an object of the whole cluster.
	Namespace, Name string
	Violations      []Violation
}

func (r *Result) add(obj *unstructured.Unstructured, violations []Violation, tells Tells) {
	switch {
	case len(violations) == 0:
	case !tells(obj.GetNamespace()):
		r.Untold++
	default:
		r.Told++
		if len(r.Named) < MaxNamed {
			r.Named = append(r.Named, Object{obj.GetNamespace(), obj.GetName(), violations})
		}
	}
}

// Err says what is in the way of the new schema; nil where nothing is. It begins in the words of the contract
// (1.5).
func (r *Result) Err() error {
	if r.Told+r.Untold == 0 {
		return nil
	}
	least := ""
	if r.Unread {
		least = "at least "
	}
	var parts []string
	for _, o := range r.Named {
		parts = append(parts, o.String())
	}
	if more := r.Told - len(r.Named); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	if r.Untold > 0 {
		parts = append(parts, fmt.Sprintf("%d outside of the namespaces that the OperatorGroup selects and its account may read", r.Untold))
	}
	return fmt.Errorf("error validating existing CRs against new CRD's schema for %q: updated validation is too restrictive: "+
		"%s%d object(s) would be invalid in version %s: %s", r.CRD, least, r.Told+r.Untold, r.Version, strings.Join(parts, ", "))
}

// String names the object and what is wrong with it.
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	var words []string
	for _, v := range o.Violations[:min(len(o.Violations), MaxViolations)] {
		words = append(words, v.String())
	}
	if more := len(o.Violations) - MaxViolations; more > 0 {
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
