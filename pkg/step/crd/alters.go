package crd

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Alterations describes how the wanted CustomResourceDefinition changes existing objects, or how their users can read and
// write them, even if all of them stay valid: added or changed defaults, removed fields, which are pruned, and versions that
// are no longer served or stored. It is empty if there are no such changes. Every change to the live
// CustomResourceDefinition is a change to the objects of others, whether or not it is described here (docs/adr/0068).
func Alterations(live, want *apiextensionsv1.CustomResourceDefinition) []string {
	var out []string
	if before, after := storage(live), storage(want); before != after {
		out = append(out, fmt.Sprintf("stores objects in version %q instead of %q", after, before))
	}
	for _, before := range live.Spec.Versions {
		if !before.Served {
			continue
		}
		after := served(want, before.Name)
		if after == nil {
			out = append(out, fmt.Sprintf("no longer serves version %q", before.Name))
			continue
		}
		a, b := rootOf(before.Schema), rootOf(after.Schema)
		if changesDefaults(a, b) {
			out = append(out, fmt.Sprintf("changes defaults in version %q", before.Name))
		}
		if removesFields(a, b) {
			out = append(out, fmt.Sprintf("removes fields in version %q", before.Name))
		}
	}
	return out
}

func storage(d *definition) string {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

func rootOf(v *apiextensionsv1.CustomResourceValidation) *props {
	if v == nil || v.OpenAPIV3Schema == nil {
		return &props{}
	}
	return v.OpenAPIV3Schema
}

// changesDefaults reports whether a node or one below it sets other values than before in objects that lack them.
func changesDefaults(old, next *props) bool {
	if next.Default != nil && !apiequality.Semantic.DeepEqual(old.Default, next.Default) {
		return true
	}
	for name, p := range next.Properties {
		before := old.Properties[name]
		if changesDefaults(&before, &p) {
			return true
		}
	}
	return slices.ContainsFunc(elements(old, next), func(e [2]*props) bool { return changesDefaults(e[0], e[1]) })
}

// removesFields reports whether the API server prunes fields that it kept before.
func removesFields(old, next *props) bool {
	if keepsUnknown(next) && next.AdditionalProperties == nil {
		return false
	}
	if keepsUnknown(old) && !keepsUnknown(next) {
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		after, kept := next.Properties[name]
		before := old.Properties[name]
		if !kept && !keepsUnknown(next) || kept && removesFields(&before, &after) {
			return true
		}
	}
	return slices.ContainsFunc(elements(old, next), func(e [2]*props) bool { return removesFields(e[0], e[1]) })
}

// elements returns the schemas of the items of a list and of the values of a map, before and after. A missing schema is empty.
func elements(old, next *props) [][2]*props {
	var out [][2]*props
	if next.Items != nil && next.Items.Schema != nil {
		before := &props{}
		if old.Items != nil && old.Items.Schema != nil {
			before = old.Items.Schema
		}
		out = append(out, [2]*props{before, next.Items.Schema})
	}
	if next.AdditionalProperties != nil && next.AdditionalProperties.Schema != nil {
		before := &props{}
		if old.AdditionalProperties != nil && old.AdditionalProperties.Schema != nil {
			before = old.AdditionalProperties.Schema
		}
		out = append(out, [2]*props{before, next.AdditionalProperties.Schema})
	}
	return out
}
