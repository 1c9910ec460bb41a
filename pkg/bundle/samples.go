package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// asSample returns the error about a manifest that may be a sample: its kind has the name of one of Kubernetes' own (Service,
// Role, Secret) and is of another group. Tools that make bundles take such samples for what an operator needs.
func asSample(err error) *UnsupportedKindError {
	var unsupported *UnsupportedKindError
	if !errors.As(err, &unsupported) {
		return nil
	}
	if slices.ContainsFunc(kinds(), func(k Kind) bool { return k.Kind == unsupported.GVK.Kind && isKubernetes(k.Group) }) {
		return unsupported
	}
	return nil
}

func isKubernetes(group string) bool { return group == "" || strings.HasSuffix(group, ".k8s.io") }

// leaveOut warns about samples of the bundle's own kinds, which are for people to copy. Others are an error.
func (b *Bundle) leaveOut(samples []*UnsupportedKindError) error {
	for _, s := range samples {
		if !b.defines(s.GVK.GroupKind()) {
			return s
		}
		b.Warnings = append(b.Warnings, fmt.Sprintf("left out %s %.100q of %s: it is a sample of a kind of the bundle's own", s.GVK.Kind, s.Name, s.GVK.GroupVersion()))
	}
	return nil
}

// defines reports whether one of the bundle's CustomResourceDefinitions is of a kind.
func (b *Bundle) defines(gk schema.GroupKind) bool {
	return slices.ContainsFunc(b.Objects, func(obj *unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
		return obj.GetKind() == "CustomResourceDefinition" && gk == schema.GroupKind{Group: group, Kind: kind}
	})
}
