package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "packages.operators.coreos.com", Version: "v1"}

// The kinds and resources of the group.
const (
	KindPackageManifest      = "PackageManifest"
	ResourcePackageManifests = "packagemanifests"
	// SubresourceIcon is the subresource with the icon of a PackageManifest.
	SubresourceIcon = "icon"

	KindPackageCatalog      = "PackageCatalog"
	ResourcePackageCatalogs = "packagecatalogs"
	// SubresourceContent is the subresource to which the catalog program sends the content of a PackageCatalog.
	SubresourceContent = "content"
	// SubresourceComplete is the subresource to which the catalog program sends a request, for any PackageCatalog, after it
	// has sent all catalogs.
	SubresourceComplete = "complete"
)

// The labels of a PackageManifest.
const (
	// LabelCatalog and LabelCatalogNamespace name the CatalogSource.
	LabelCatalog          = "catalog"
	LabelCatalogNamespace = "catalog-namespace"
	// LabelProvider and LabelProviderURL name the provider of the package. Their values are not always valid label values,
	// so selectors cannot match all of them.
	LabelProvider    = "provider"
	LabelProviderURL = "provider-url"
	// PrefixArch and PrefixOS precede the name of a supported architecture and operating system.
	PrefixArch = "operatorframework.io/arch."
	PrefixOS   = "operatorframework.io/os."
	// ValueSupported is the value of labels with these prefixes.
	ValueSupported = "supported"
)

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PackageManifest{}, &PackageManifestList{}, &PackageCatalog{}, &PackageCatalogList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
