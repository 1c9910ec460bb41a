package build

import (
	"encoding/json"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// csvObject returns the ClusterServiceVersion in the Subscription's namespace. It is created with the annotations of
// its OperatorGroup, its bundle's properties and, if it will own objects outside that namespace, the finalizer. dropped
// contains the keys of labels and annotations that the bundle is not allowed to set.
func csvObject(b *bundle.Bundle, scope Scope) (obj *unstructured.Unstructured, dropped []string, err error) {
	if obj, err = encodeCSV(b.CSV); err != nil {
		return nil, nil, err
	}
	dropped = bundle.Confine(obj)
	obj.SetNamespace(scope.Namespace)
	if scope.Replaces != "" {
		if err := unstructured.SetNestedField(obj.Object, scope.Replaces, "spec", "replaces"); err != nil {
			return nil, nil, fmt.Errorf("ClusterServiceVersion %q: %w", b.CSV.Name, err)
		}
	}
	if scope.Group != "" {
		for key, value := range deployment.GroupAnnotations(scope.Group, scope.Namespace, scope.Targets) {
			apply.Annotate(obj, key, value)
		}
	}
	if obj.GetAnnotations()[names.AnnotationProperties] == "" && scope.Properties != "" { // the author's annotation takes precedence
		apply.Annotate(obj, names.AnnotationProperties, scope.Properties)
	}
	if Outside(b.CSV, scope.Namespace, scope.Targets) || slices.ContainsFunc(b.Objects, isDeletedWithCSV) {
		obj.SetFinalizers([]string{names.FinalizerCSV})
	}
	return obj, dropped, nil
}

// Outside reports whether a CSV needs objects outside its namespace: roles in other targets, webhooks or APIs.
func Outside(csv *operatorsv1alpha1.ClusterServiceVersion, namespace string, targets []string) bool {
	return len(csv.Spec.WebhookDefinitions)+len(csv.Spec.APIServiceDefinitions.Owned) > 0 ||
		slices.ContainsFunc(Grants(csv, namespace, targets), func(g Grant) bool { return g.Namespace != namespace })
}

// isDeletedWithCSV reports whether Remit must delete an object with its CSV, because garbage collection does not delete
// cluster-scoped objects. CustomResourceDefinitions are kept.
func isDeletedWithCSV(obj *unstructured.Unstructured) bool {
	return !bundle.KindOfObject(obj).Namespaced && obj.GetKind() != "CustomResourceDefinition"
}

// encodeCSV encodes a ClusterServiceVersion using its Go type. Published CSVs omit fields that the
// CustomResourceDefinition requires and that the type encodes even if they are empty, such as the name of a resource of
// an owned CRD. OLM v0 can install such CSVs because it sends the encoded type rather than the file.
func encodeCSV(csv *operatorsv1alpha1.ClusterServiceVersion) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(csv)
	if err != nil {
		return nil, fmt.Errorf("encode ClusterServiceVersion %q: %w", csv.Name, err)
	}
	obj := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &obj.Object); err != nil {
		return nil, fmt.Errorf("encode ClusterServiceVersion %q: %w", csv.Name, err)
	}
	delete(obj.Object, "status")
	dropNulls(obj.Object)
	obj.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	return obj, nil
}

// dropNulls removes unset times and lists, which are encoded as null.
func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			if field == nil {
				delete(v, key)
			}
			dropNulls(field)
		}
	case []any:
		for _, item := range v {
			dropNulls(item)
		}
	}
}
