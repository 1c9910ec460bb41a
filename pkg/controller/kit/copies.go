package kit

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/remit-olm/remit/pkg/lib/compact"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// Copy returns an empty object of the kind that the cache of NewCopies contains.
func Copy() *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	return obj
}

// Copies returns an empty list for the cache of NewCopies.
func Copies() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind + "List"))
	return list
}

// IsCopied selects the ClusterServiceVersions that are labeled as copies.
func IsCopied() labels.Selector { return copied(selection.Exists) }

// IsNotCopied selects the ClusterServiceVersions that are not labeled as copies.
func IsNotCopied() labels.Selector { return copied(selection.DoesNotExist) }

func copied(op selection.Operator) labels.Selector {
	requirement, err := labels.NewRequirement(names.LabelCopiedFrom, op, nil)
	if err != nil {
		panic(err) // the key is a constant
	}
	return labels.NewSelector().Add(*requirement)
}

// copies is a cache that a manager starts together with its own cache.
type copies struct{ cache.Cache }

// GetCache makes the manager start the cache before its controllers.
func (c copies) GetCache() cache.Cache { return c.Cache }

// NewCopies returns a cache of the metadata of the ClusterServiceVersions that are labeled as copies. The manager's own
// cache contains all others. There can be tens of thousands of copies, so their content is never requested, and the cache
// does not contain the labels and annotations that describe the operator, such as its examples.
func NewCopies(mgr ctrl.Manager) (cache.Cache, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: IsCopied(), DefaultTransform: trimCopies(),
	})
	if err != nil {
		return nil, fmt.Errorf("cache of copied ClusterServiceVersions: %w", err)
	}
	return c, mgr.Add(copies{c})
}

func trimCopies() toolscache.TransformFunc {
	shared := &compact.Strings{}
	return func(obj any) (any, error) {
		if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
			trimCopy(meta)
			shared.Compact(meta)
		}
		return obj, nil
	}
}

const (
	// maxValue is the number of bytes of an annotation that the cache of copies keeps. Those that Remit adds are shorter.
	maxValue = 4 << 10
	// maxManagers is the number of managers that it keeps. Those of an unchanged copy are fewer.
	maxManagers = 20
)

// trimCopy keeps, of a copy's labels and annotations, what identifies its source and proves that Remit created it, of its
// managed fields, the names of the managers and the subresources that they wrote, of its owners, whether there is one, and of its
// finalizers, Remit's. Any user can add the label to a large object.
func trimCopy(meta *metav1.PartialObjectMetadata) {
	meta.OwnerReferences = slices.Clone(meta.OwnerReferences[:min(len(meta.OwnerReferences), 1)])
	isFinalized := slices.Contains(meta.Finalizers, names.FinalizerCSV)
	if meta.Finalizers = nil; isFinalized {
		meta.Finalizers = []string{names.FinalizerCSV}
	}
	meta.ManagedFields = slices.Clone(meta.ManagedFields[:min(len(meta.ManagedFields), maxManagers)])
	meta.Labels = only(meta.Labels, names.LabelCopiedFrom)
	meta.Annotations = only(meta.Annotations, names.AnnotationProof, names.AnnotationCopyHash, names.AnnotationOperatorGroup, names.AnnotationOperatorNamespace)
	for i, entry := range meta.ManagedFields {
		meta.ManagedFields[i] = metav1.ManagedFieldsEntry{Manager: entry.Manager, Subresource: entry.Subresource}
	}
}

// only returns the entries with these keys that are not large.
func only(all map[string]string, keys ...string) map[string]string {
	out := make(map[string]string, len(keys))
	for _, key := range keys {
		if value, ok := all[key]; ok && len(value) <= maxValue {
			out[key] = value
		}
	}
	return out
}
