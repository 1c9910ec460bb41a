package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "olm.operatorframework.io", Version: "v1"}

// The kinds of the group.
const (
	KindClusterExtension = "ClusterExtension"
	KindClusterCatalog   = "ClusterCatalog"
)

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ClusterExtension{}, &ClusterExtensionList{}, &ClusterCatalog{}, &ClusterCatalogList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
