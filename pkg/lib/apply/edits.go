package apply

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// WithoutEdits returns a copy of desired without the fields that other field managers have set to different values in live, and
// describes these fields. An apply of the copy restores all other fields, and does not conflict with the edits. live must have
// managed fields, which caches omit.
func WithoutEdits(live, desired *unstructured.Unstructured) (*unstructured.Unstructured, []string) {
	out, own := desired.DeepCopy(), Manager(desired.GetLabels())
	var edits []string
	for _, f := range live.GetManagedFields() {
		var fields map[string]any
		if f.Manager == own || f.FieldsV1 == nil || json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		removeEdits(out.Object, live.Object, fields, "", func(path string) {
			edits = append(edits, fmt.Sprintf("%s (by %q)", path, f.Manager))
		})
	}
	slices.Sort(edits)
	return out, slices.Compact(edits)
}

// removeEdits removes, from desired, the fields of a set in the format of managedFields (see hasFields) that have different
// values in live.
func removeEdits(desired, live any, fields map[string]any, path string, removed func(path string)) {
	for k, rest := range fields {
		below, _ := rest.(map[string]any)
		kind, name, _ := strings.Cut(k, ":")
		switch kind {
		case "f":
			want, ok := fieldOf(desired, name)
			is, exists := fieldOf(live, name)
			parent, isMap := desired.(map[string]any)
			at := strings.TrimPrefix(path+"."+name, ".")
			switch {
			case !ok || !exists || !isMap:
			case len(below) > 0:
				removeEdits(want, is, below, at, removed)
			case !Contains(is, want):
				delete(parent, name)
				removed(at)
			}
		case "k":
			want, ok := itemOf(desired, name)
			if is, exists := itemOf(live, name); ok && exists {
				removeEdits(want, is, below, path+"["+name+"]", removed)
			}
		}
	}
}
