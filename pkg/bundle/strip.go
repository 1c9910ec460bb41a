package bundle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// words reads the labels or annotations of a manifest but those that are not its author's to set. What
// is no text is refused: the API server would refuse it later, and reading it leniently loses all.
func words(obj *unstructured.Unstructured, field string, without func(key string) bool) (map[string]any, error) {
	all, _, err := unstructured.NestedNullCoercingStringMap(obj.Object, "metadata", field)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	kept := map[string]any{}
	for k, v := range all {
		if !without(k) {
			kept[k] = v
		}
	}
	return kept, nil
}

// isOwnerLabel says whether an object could pass for another install's by this label.
func isOwnerLabel(key string) bool {
	switch key {
	case names.LabelManaged, names.LabelOwner, names.LabelOwnerKind, names.LabelOwnerNamespace,
		names.LabelCopiedFrom, names.LabelPermissionsHash:
		return true
	}
	return strings.HasPrefix(key, names.LabelComponentPrefix) || strings.HasPrefix(key, names.PrefixOwn)
}

// isOwnAnnotation says whether the annotation is written by Remit's controllers, which an author's value
// would stand in the way of, or by kubectl.
func isOwnAnnotation(key string) bool {
	switch key {
	case names.AnnotationOperatorGroup, names.AnnotationOperatorNamespace, names.AnnotationTargetNamespaces,
		corev1.LastAppliedConfigAnnotation:
		return true
	}
	return strings.HasPrefix(key, names.AnnotationInstalledAlongsidePrefix) || strings.HasPrefix(key, names.PrefixOwn)
}
