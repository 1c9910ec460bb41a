package catalogsource

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func newObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind))
	return u
}

func newObjects() *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind + "List"))
	return u
}

// decode converts a CatalogSource to the typed object. It drops an updateStrategy without registryPoll, which has no
// meaning and makes the type's decoder panic.
func decode(u *unstructured.Unstructured) (*operatorsv1alpha1.CatalogSource, error) {
	content := u.UnstructuredContent()
	if poll, ok, _ := unstructured.NestedMap(content, "spec", "updateStrategy", "registryPoll"); !ok || poll == nil {
		content = u.DeepCopy().UnstructuredContent()
		unstructured.RemoveNestedField(content, "spec", "updateStrategy")
	}
	cs := &operatorsv1alpha1.CatalogSource{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, cs); err != nil {
		return nil, fmt.Errorf("decode CatalogSource: %w", err)
	}
	return cs, nil
}

// withStatus returns a copy of u with the given status.
func withStatus(u *unstructured.Unstructured, status *operatorsv1alpha1.CatalogSourceStatus) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return nil, fmt.Errorf("encode status of CatalogSource: %w", err)
	}
	dropNulls(content)
	out := u.DeepCopy()
	out.Object["status"] = content
	return out, nil
}

// dropNulls removes null values, because zero times are encoded as null.
func dropNulls(m map[string]any) {
	for key, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, key)
		case map[string]any:
			dropNulls(v)
		case []any:
			for _, element := range v {
				if object, ok := element.(map[string]any); ok {
					dropNulls(object)
				}
			}
		}
	}
}
