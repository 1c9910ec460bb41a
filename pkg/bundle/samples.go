package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// asSample returns the UnsupportedKindError of a manifest that may be a sample, or nil. Such a manifest has a kind with
// the same name as a Kubernetes kind (Service, Role, Secret), but in a different group. Tools that build bundles
// mistake samples of these kinds for objects that the operator needs.
func asSample(err error) *UnsupportedKindError {
	var unsupported *UnsupportedKindError
	if !errors.As(err, &unsupported) {
		return nil
	}
	if slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.Kind == unsupported.GVK.Kind && isKubernetes(k.Group) }) {
		return unsupported
	}
	return nil
}

func isKubernetes(group string) bool { return group == "" || strings.HasSuffix(group, ".k8s.io") }

// omitSamples adds a warning for each sample of a kind that the bundle defines; users copy such samples to create their
// own objects. For any other kind, it returns an error.
func (b *Bundle) omitSamples(samples []*UnsupportedKindError) error {
	for _, s := range samples {
		if !b.defines(s.GVK.GroupKind()) {
			return s
		}
		b.Warnings = append(b.Warnings, fmt.Sprintf("omitted %s %.100q of %s: the bundle itself defines this kind, so the object is only a sample", s.GVK.Kind, s.Name, s.GVK.GroupVersion()))
	}
	return nil
}

// defines reports whether one of the bundle's CustomResourceDefinitions defines a kind.
func (b *Bundle) defines(gk schema.GroupKind) bool {
	return slices.ContainsFunc(b.Objects, func(obj *unstructured.Unstructured) bool {
		return obj.GetKind() == "CustomResourceDefinition" && gk == DefinedKind(obj)
	})
}

// DefinedKind returns the kind that a CustomResourceDefinition defines.
func DefinedKind(crd *unstructured.Unstructured) schema.GroupKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}
}
