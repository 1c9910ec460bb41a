package existing

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Limits for the errors of a Result.
const (
	// MaxNamed is the number of objects that an error names.
	MaxNamed = 5
	// MaxViolations is the number of violations per object, and MaxField is the length of a field's path in bytes.
	MaxViolations = 3
	MaxField      = 120
)

// MayName reports whether a message may name the objects of a namespace; "" means cluster-scoped objects.
type MayName func(namespace string) bool

// Result contains the violations found in one version's objects, before they are filtered for a reader.
type Result struct {
	CRD, Version string
	// Unchecked is the reason why not all objects were validated; "" if all were.
	Unchecked string

	broken []broken
}

// broken describes the objects of one namespace that the new schema would reject.
type broken struct {
	namespace string
	count     int
	// first describes the first objects, at most MaxNamed.
	first []string
}

// leave records why further objects are not validated.
func (r *Result) leave(format string, args ...any) { r.Unchecked = fmt.Sprintf(format, args...) }

func (r *Result) add(obj types.NamespacedName, found verdict) {
	if len(found.First) == 0 {
		return
	}
	if n := len(r.broken); n == 0 || r.broken[n-1].namespace != obj.Namespace { // lists are sorted by namespace
		r.broken = append(r.broken, broken{namespace: obj.Namespace})
	}
	last := &r.broken[len(r.broken)-1]
	last.count++
	if len(last.first) < MaxNamed {
		last.first = append(last.first, describe(obj, found))
	}
}

// Refuses reports whether existing objects violate the new schema.
func (r *Result) Refuses() bool { return len(r.broken) > 0 }

// Err returns an error that describes the violations that may be reported, or nil if there are no violations. It
// begins with the contract's message.
func (r *Result) Err(mayName MayName) error {
	if !r.Refuses() {
		return nil
	}
	told, untold := 0, 0
	var parts []string
	for _, b := range r.broken {
		if !mayName(b.namespace) {
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
		parts = append(parts, fmt.Sprintf("%d in namespaces that the OperatorGroup does not select or its account is not allowed to read", untold))
	}
	least := ""
	if r.Unchecked != "" {
		least = "at least "
	}
	return fmt.Errorf("error validating existing CRs against new CRD's schema for %q: updated validation is too restrictive: "+
		"%s%d object(s) would be invalid in version %s: %s", r.CRD, least, told+untold, r.Version, strings.Join(parts, ", "))
}

// describe returns an object's name and its violations.
func describe(obj types.NamespacedName, found verdict) string {
	name := obj.Name
	if obj.Namespace != "" {
		name = obj.Namespace + "/" + name
	}
	words := found.First
	if found.More > 0 {
		words = append(words, fmt.Sprintf("and %d more", found.More))
	}
	return name + " (" + strings.Join(words, "; ") + ")"
}

// tooCostly is the violation of an object whose validation takes too much memory or time.
const tooCostly = "Too costly to validate: it exceeds 256 MiB or 3 seconds of CPU time"

func (v violation) String() string {
	if v.field == "" {
		return v.kind
	}
	return short(v.field, MaxField) + ": " + v.kind
}

// short returns a text of at most limit bytes.
func short(text string, limit int) string {
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
