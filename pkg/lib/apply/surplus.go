package apply

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hasSurplus reports whether an apply would remove a field from live because an earlier apply set it and desired does
// not contain it. It compares managedFields with desired.
func hasSurplus(live, desired *unstructured.Unstructured) bool {
	for _, f := range live.GetManagedFields() {
		applied := f.Manager == Manager(desired.GetLabels()) && f.Operation == metav1.ManagedFieldsOperationApply
		if !applied || f.Subresource != "" || f.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) == nil && !hasFields(desired.Object, fields) {
			return true
		}
	}
	return false
}

// hasFields reports whether value has all fields of a set in the format of managedFields, in which "f:<name>" is a
// field of a map and "k:<keys>" is the list item with these keys. List items that the set identifies by value or
// position are ignored, because Contains compares them.
func hasFields(value any, fields map[string]any) bool {
	for k, rest := range fields {
		below, _ := rest.(map[string]any)
		var part any
		var ok bool
		switch kind, name, _ := strings.Cut(k, ":"); kind {
		case "f":
			part, ok = fieldOf(value, name)
		case "k":
			part, ok = itemOf(value, name)
		default:
			continue
		}
		if !ok || !hasFields(part, below) {
			return false
		}
	}
	return true
}

func fieldOf(value any, name string) (any, bool) {
	m, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	field, ok := m[name]
	return field, ok
}

func itemOf(value any, keys string) (any, bool) {
	var want map[string]any
	list, ok := value.([]any)
	if !ok || json.Unmarshal([]byte(keys), &want) != nil {
		return nil, false
	}
	for _, item := range list {
		if withDefaults(item, want) {
			return item, true
		}
	}
	return nil, false
}

// withDefaults reports whether a list item has these keys. A key that the item omits counts as equal, because it can
// have a default, such as a port's protocol.
func withDefaults(item any, keys map[string]any) bool {
	m, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for k, v := range keys {
		if has, ok := m[k]; ok && !Contains(has, v) {
			return false
		}
	}
	return true
}
