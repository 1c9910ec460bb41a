package v1

import (
	"github.com/operator-framework/api/pkg/lib/version"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PackageManifest describes a package in a catalog: its channels, and the newest version in each of them.
//
// +kubebuilder:object:root=true
type PackageManifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// Spec has no fields.
	Spec PackageManifestSpec `json:"spec,omitempty"`
	// Status describes the package.
	Status PackageManifestStatus `json:"status,omitempty"`
}

// PackageManifestList is a list of PackageManifests.
//
// +kubebuilder:object:root=true
type PackageManifestList struct {
	metav1.TypeMeta `json:",inline"`
	// ListMeta is never omitted, but the API server only encodes the items one by one if all tags are like this.
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PackageManifest `json:"items"`
}

// PackageManifestSpec is empty, because PackageManifests cannot be configured.
type PackageManifestSpec struct{}

// PackageManifestStatus describes a package as its catalog does.
type PackageManifestStatus struct {
	// CatalogSource is the name of the CatalogSource that contains the package.
	CatalogSource string `json:"catalogSource"`
	// CatalogSourceDisplayName is the display name of the CatalogSource.
	CatalogSourceDisplayName string `json:"catalogSourceDisplayName"`
	// CatalogSourcePublisher is the publisher of the CatalogSource.
	CatalogSourcePublisher string `json:"catalogSourcePublisher"`
	// CatalogSourceNamespace is the namespace of the CatalogSource.
	CatalogSourceNamespace string `json:"catalogSourceNamespace"`
	// Provider is the provider of the newest version in the default channel.
	Provider operatorsv1alpha1.AppLink `json:"provider,omitempty"`
	// PackageName is the name of the package.
	PackageName string `json:"packageName"`
	// Deprecation is set if the package is deprecated.
	Deprecation *Deprecation `json:"deprecation,omitempty"`
	// Channels lists the channels of the package.
	Channels []PackageChannel `json:"channels"`
	// DefaultChannel is the channel of Subscriptions that do not specify one.
	DefaultChannel string `json:"defaultChannel"`
}

// Deprecation marks a part of a catalog as deprecated.
type Deprecation struct {
	// Message is the deprecation message in the catalog.
	Message string `json:"message"`
}

// PackageChannel describes a channel of a package.
type PackageChannel struct {
	// Name is the name of the channel.
	Name string `json:"name"`
	// CurrentCSV is the name of the newest version.
	CurrentCSV string `json:"currentCSV"`
	// CurrentCSVDesc describes the newest version.
	CurrentCSVDesc CSVDescription `json:"currentCSVDesc,omitempty"`
	// Deprecation is set if the channel is deprecated.
	Deprecation *Deprecation `json:"deprecation,omitempty"`
	// Entries lists the versions in the channel, newest first.
	Entries []ChannelEntry `json:"entries"`
}

// ChannelEntry is a version in a channel.
type ChannelEntry struct {
	// Name is the name of the ClusterServiceVersion.
	Name string `json:"name"`
	// Version is the version of the operator.
	Version string `json:"version,omitempty"`
	// Deprecation is set if the version is deprecated.
	Deprecation *Deprecation `json:"deprecation,omitempty"`
}

// CSVDescription contains the parts of a ClusterServiceVersion that describe an operator to people.
type CSVDescription struct {
	// DisplayName is the name of the operator for display.
	DisplayName string `json:"displayName,omitempty"`
	// Icon contains the operator's icon. Lists and watch events do not contain it.
	Icon []Icon `json:"icon,omitempty"`
	// Version is the version of the operator.
	Version version.OperatorVersion `json:"version,omitempty"`
	// Provider is the provider of the operator.
	Provider operatorsv1alpha1.AppLink `json:"provider,omitempty"`
	// Annotations contains the annotations of the ClusterServiceVersion.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Keywords lists keywords for searches.
	Keywords []string `json:"keywords,omitempty"`
	// Links lists links to more information.
	Links []operatorsv1alpha1.AppLink `json:"links,omitempty"`
	// Maintainers lists the maintainers of the operator.
	Maintainers []operatorsv1alpha1.Maintainer `json:"maintainers,omitempty"`
	// Maturity is the maturity of the operator, such as alpha or stable.
	Maturity string `json:"maturity,omitempty"`
	// LongDescription is a description in Markdown.
	LongDescription string `json:"description,omitempty"`
	// InstallModes lists the supported install modes.
	InstallModes []operatorsv1alpha1.InstallMode `json:"installModes,omitempty"`
	// CustomResourceDefinitions lists the APIs that the operator owns and requires.
	CustomResourceDefinitions operatorsv1alpha1.CustomResourceDefinitions `json:"customresourcedefinitions,omitempty"`
	// APIServiceDefinitions lists the aggregated APIs that the operator owns and requires.
	APIServiceDefinitions operatorsv1alpha1.APIServiceDefinitions `json:"apiservicedefinitions,omitempty"`
	// NativeAPIs lists the built-in APIs that the operator requires.
	NativeAPIs []metav1.GroupVersionKind `json:"nativeApis,omitempty"`
	// MinKubeVersion is the oldest version of Kubernetes that the operator supports.
	MinKubeVersion string `json:"minKubeVersion,omitempty"`
	// RelatedImages lists the images that the operator uses.
	RelatedImages []string `json:"relatedImages,omitempty"`
}

// Icon is an image.
type Icon struct {
	// Base64Data is the image, encoded with base64.
	Base64Data string `json:"base64data,omitempty"`
	// Mediatype is the media type of the image.
	Mediatype string `json:"mediatype,omitempty"`
}
