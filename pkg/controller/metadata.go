package controller

import (
	"maps"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/names"
)

const (
	// maxMetadata is the number of bytes of annotations, and of labels, that caches keep of an object of a kind that everybody may
	// create. The API server takes 256 KiB of annotations, and as many labels as fit into an object.
	maxMetadata = 4 << 10
	// maxComponents is the number of labels with names.LabelComponentPrefix that caches keep of an object with more labels.
	maxComponents = 20
	// maxEntries is the number of annotations, and of labels, that caches keep of an object of another kind, with those that controllers
	// read. One with an empty value has 9 bytes in an object, and takes 60 bytes of memory.
	maxEntries = 1000
	// groupPermissions is the prefix of the labels by which ClusterRoles of OperatorGroups aggregate others.
	groupPermissions = "olm.opgroup.permissions/"
)

// trimMetadata removes the annotations and labels that no controller reads from an object with many of them. A user of one namespace
// could otherwise fill the memory of all programs. The annotations that Remit adds to a Service for a certificate tool are compared
// with those in the cache, so smaller ones are kept: without them, each comparison would read the Service from the API server.
func trimMetadata(obj client.Object) {
	switch obj.(type) {
	case *corev1.ServiceAccount, *corev1.Service, *rbacv1.Role, *rbacv1.RoleBinding:
		obj.SetLabels(keepRead(obj.GetLabels(), readLabels()))
	case *appsv1.Deployment: // labels of the bundle are restored
		obj.SetLabels(keepFew(obj.GetLabels(), readLabels()))
	case *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding: // accounts can write them
		obj.SetLabels(keepFew(obj.GetLabels(), readLabels(), rbacv1.GroupName+"/", groupPermissions))
	case *corev1.Namespace: // any label can be selected
	case *operatorsv1alpha1.Subscription, *operatorsv1alpha1.ClusterServiceVersion, *operatorsv1alpha1.InstallPlan,
		*operatorsv1.OperatorGroup, *operatorsv2.OperatorCondition, *unstructured.Unstructured:
		limitMetadata(obj)
		return
	default:
		return
	}
	obj.SetAnnotations(keepRead(obj.GetAnnotations(), readAnnotations()))
}

// limitMetadata removes annotations and labels from an object with more than caches keep, and marks it as refused, because others than
// controllers use them too: copies of a ClusterServiceVersion have those of the original. 174,000 labels of a Subscription took 10 MB.
func limitMetadata(obj client.Object) {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	size := budget.Of(labels).Memory + budget.Of(annotations).Memory
	fewLabels, fewAnnotations := keepFew(labels, readLabels()), keepFew(annotations, append(readAnnotations(), requestAnnotations()...))
	if len(fewLabels) == len(labels) && len(fewAnnotations) == len(annotations) {
		return
	}
	obj.SetLabels(fewLabels)
	obj.SetAnnotations(fewAnnotations)
	budget.Refuse(obj, size)
}

// readAnnotations and readLabels return the keys that controllers read on all kinds.
func readAnnotations() []string {
	return []string{names.AnnotationProof, names.AnnotationCAHash, names.AnnotationCAHashes, names.AnnotationTooLarge, names.AnnotationUndecodable}
}

func readLabels() []string {
	return []string{
		names.LabelManaged, names.LabelOwner, names.LabelOwnerNamespace, names.LabelOwnerKind, names.LabelLineage, names.LabelExtensionKind,
		names.LabelExtensionName, names.LabelPermissionsHash, names.LabelCatalogSource,
		names.LabelServiceSpecHash, names.LabelPullSecretsHash, names.LabelDeploymentSpecHash, names.LabelCopiedFrom, names.LabelAnyAccount,
	}
}

// requestAnnotations returns the keys that controllers read on objects with which users request something.
func requestAnnotations() []string {
	return []string{
		names.AnnotationOperatorGroup, names.AnnotationOperatorNamespace, names.AnnotationTargetNamespaces, names.AnnotationSkipRange,
		names.AnnotationProperties, names.AnnotationPriorityClass, names.AnnotationGeneratedBy, names.AnnotationUnpackTimeout,
		names.AnnotationExcludeGlobal, names.AnnotationLineage, names.AnnotationAccount, names.AnnotationManagedBy, names.AnnotationKeepExcess,
		names.AnnotationPlan, names.AnnotationContent, operatorsv1.OperatorGroupProvidedAPIsAnnotationKey,
	}
}

// keepFew returns all values if they are few, and otherwise those that are read and the first ones of the others, of which those with one of
// the prefixes are first.
func keepFew(all map[string]string, read []string, prefixes ...string) map[string]string {
	if len(all) <= maxEntries {
		return all
	}
	kept := map[string]string{}
	keep := func(keys []string) {
		for _, key := range keys {
			kept[strings.Clone(key)] = strings.Clone(all[key])
		}
	}
	isRead := func(key string) bool { return slices.Contains(read, key) }
	isFirst := func(key string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	}
	left := maxEntries - len(read)
	first := smallest(all, left, func(key string) bool { return isFirst(key) && !isRead(key) })
	keep(smallest(all, len(read), isRead))
	keep(first)
	keep(smallest(all, left-len(first), func(key string) bool { return !isFirst(key) && !isRead(key) }))
	return kept
}

// smallest returns the n smallest of the keys that match. An object can have 174,000 keys, and events of others wait until they have been
// examined, so it does not sort all of them.
func smallest(all map[string]string, n int, match func(string) bool) (out []string) {
	if n == 0 {
		return nil
	}
	isFull := false
	for key := range all {
		if isFull && key > out[n-1] || !match(key) {
			continue
		}
		if out = append(out, key); len(out) == 2*n {
			slices.Sort(out)
			out, isFull = out[:n], true
		}
	}
	slices.Sort(out)
	return out[:min(len(out), n)]
}

// keepRead returns all values if they are small, and otherwise those that are read and are small themselves.
func keepRead(all map[string]string, read []string) map[string]string {
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	if size <= maxMetadata {
		return all
	}
	kept, components := map[string]string{}, 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		isComponent := strings.HasPrefix(key, names.LabelComponentPrefix) && components < maxComponents
		if value := all[key]; len(value) <= maxMetadata && (isComponent || slices.Contains(read, key)) {
			kept[strings.Clone(key)] = strings.Clone(value)
		}
		if isComponent {
			components++
		}
	}
	return kept
}
