package controller

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

const (
	// maxMetadata is the number of bytes of annotations, and of labels, that caches keep of an object of a kind that everybody may
	// create. The API server takes 256 KiB of annotations, and as many labels as fit into an object.
	maxMetadata = 4 << 10
	// maxComponents is the number of labels with names.LabelComponentPrefix that caches keep of an object with more labels.
	maxComponents = 20
)

// trimMetadata removes the annotations and labels that no controller reads from an object with many of them. A user of one namespace
// could otherwise fill the memory of all programs. The annotations that Remit adds to a Service for a certificate tool are compared
// with those in the cache, so smaller ones are kept: without them, each comparison would read the Service from the API server.
func trimMetadata(obj client.Object) {
	switch obj.(type) {
	case *corev1.ServiceAccount, *corev1.Service, *rbacv1.Role, *rbacv1.RoleBinding:
		obj.SetLabels(keepRead(obj.GetLabels(), readLabels()))
	case *appsv1.Deployment: // labels of the bundle are restored
	case *corev1.Namespace, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding: // any label can be selected
	default:
		return
	}
	obj.SetAnnotations(keepRead(obj.GetAnnotations(), readAnnotations()))
}

// readAnnotations and readLabels return the keys that controllers read on these kinds.
func readAnnotations() []string {
	return []string{names.AnnotationProof, names.AnnotationCAHash, names.AnnotationCAHashes, names.AnnotationTooLarge, names.AnnotationUndecodable}
}

func readLabels() []string {
	return []string{
		names.LabelManaged, names.LabelOwner, names.LabelOwnerNamespace, names.LabelOwnerKind, names.LabelLineage, names.LabelExtensionKind,
		names.LabelExtensionName, names.LabelPermissionsHash, names.LabelCatalogSource,
		names.LabelServiceSpecHash, names.LabelPullSecretsHash,
	}
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
