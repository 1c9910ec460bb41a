package bundle

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// stringMap returns the labels or annotations of a manifest, except those whose keys omit matches. It returns an
// error for keys that are not valid, and for values that are not strings: the API server would refuse them later, and
// lenient parsing would drop all labels or annotations.
func stringMap(obj *unstructured.Unstructured, field string, omit func(key string) bool) (map[string]any, error) {
	all, _, err := unstructured.NestedNullCoercingStringMap(obj.Object, "metadata", field)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	kept := map[string]any{}
	for k, v := range all {
		if !omit(k) {
			kept[k] = v
		}
	}
	if err := checkKeys(kept); err != nil {
		return nil, fmt.Errorf("%s %q: metadata.%s: %w", obj.GetKind(), obj.GetName(), field, err)
	}
	return kept, nil
}

// isOwnerLabel reports whether a label could make an object look like part of another install.
func isOwnerLabel(key string) bool {
	switch key {
	case names.LabelManaged, names.LabelOwner, names.LabelOwnerKind, names.LabelOwnerNamespace,
		names.LabelCopiedFrom, names.LabelPermissionsHash, names.LabelExtensionKind, names.LabelExtensionName:
		return true
	}
	return strings.HasPrefix(key, names.LabelComponentPrefix) || strings.HasPrefix(key, names.PrefixOwn)
}

// isOwnAnnotation reports whether kubectl or one of Remit's controllers writes the annotation. A value from the
// bundle's author would interfere with kubectl or the controller.
func isOwnAnnotation(key string) bool {
	switch key {
	case names.AnnotationOperatorGroup, names.AnnotationOperatorNamespace, names.AnnotationTargetNamespaces,
		corev1.LastAppliedConfigAnnotation:
		return true
	}
	return strings.HasPrefix(key, names.AnnotationInstalledAlongsidePrefix) || strings.HasPrefix(key, names.PrefixOwn)
}
