package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterCatalog makes the packages of a file-based catalog available for ClusterExtensions.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=LastUnpacked,type=date,JSONPath=`.status.lastUnpacked`
// +kubebuilder:printcolumn:name="Serving",type=string,JSONPath=`.status.conditions[?(@.type=='Serving')].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters, because it is also the value of a label"
type ClusterCatalog struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes where the catalog comes from and how it is used.
	//
	// +required
	Spec ClusterCatalogSpec `json:"spec"`

	// status describes the content of the catalog and whether it is served.
	//
	// +optional
	Status ClusterCatalogStatus `json:"status,omitzero"`
}

// ClusterCatalogList is a list of ClusterCatalogs.
//
// +kubebuilder:object:root=true
type ClusterCatalogList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items contains the ClusterCatalogs.
	Items []ClusterCatalog `json:"items"`
}

// AvailabilityMode determines whether a catalog is used.
type AvailabilityMode string

const (
	// AvailabilityModeAvailable means that the catalog is used.
	AvailabilityModeAvailable AvailabilityMode = "Available"
	// AvailabilityModeUnavailable means that the catalog is treated as if it did not exist.
	AvailabilityModeUnavailable AvailabilityMode = "Unavailable"
)

// ClusterCatalogSpec describes where a catalog comes from and how it is used.
type ClusterCatalogSpec struct {
	// source is the source of the content: an image with a file-based catalog.
	//
	// +required
	Source ClusterCatalogSource `json:"source"`

	// priority decides between catalogs that contain the same package: the catalog with the highest priority is used.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Priority int32 `json:"priority"`

	// availabilityMode is Available if the catalog is used, or Unavailable if it is treated as if it did not exist. The content
	// of an unavailable catalog is deleted.
	//
	// +kubebuilder:validation:Enum=Unavailable;Available
	// +kubebuilder:default=Available
	// +optional
	AvailabilityMode AvailabilityMode `json:"availabilityMode,omitempty"`
}

// CatalogSourceType is the type of a catalog's source.
type CatalogSourceType string

// CatalogSourceTypeImage means that the catalog is in an image.
const CatalogSourceTypeImage CatalogSourceType = "Image"

// ClusterCatalogSource is the source of a catalog's content.
//
// +kubebuilder:validation:XValidation:rule=`self.type == 'Image' ? has(self.image) : !has(self.image)`,message="image is required when source type is Image, and forbidden otherwise"
type ClusterCatalogSource struct {
	// type is the type of the source. The only type is Image, which requires the field image.
	//
	// +kubebuilder:validation:Enum=Image
	// +required
	Type CatalogSourceType `json:"type"`

	// image is the image with the catalog.
	//
	// +optional
	Image *ImageSource `json:"image,omitempty"`
}

// ImageSource is an image with a file-based catalog.
//
// +kubebuilder:validation:XValidation:rule=`!self.ref.contains('@') || !has(self.pollIntervalMinutes)`,message="cannot specify pollIntervalMinutes while using digest-based image"
type ImageSource struct {
	// ref is the name of the image: a registry, a repository, and a tag or digest, for example
	// "quay.io/operatorhubio/catalog:latest".
	//
	// +kubebuilder:validation:MaxLength=1000
	// +kubebuilder:validation:XValidation:rule=`self.split('/')[0].matches('^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?$')`,message="must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the \".\" character."
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[^/]*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)+([@:]|$)')`,message="a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the \".\", \"_\", \"__\", \"-\" characters."
	// +kubebuilder:validation:XValidation:rule=`self.matches('(@[^/@:]*:|:)[^/@:]+$')`,message="must end with a digest or a tag"
	// +kubebuilder:validation:XValidation:rule=`self.contains('@') || self.find(':[^/]*$').size() <= 128`,message="tag is invalid. the tag must not be more than 127 characters"
	// +kubebuilder:validation:XValidation:rule=`self.contains('@') || self.find(':[^/]*$').matches('^(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$')`,message="tag is invalid. valid tags must begin with a word character (alphanumeric + \"_\") followed by word characters or \".\", and \"-\" characters"
	// +kubebuilder:validation:XValidation:rule=`!self.contains('@') || self.matches('@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[^@:]*$')`,message="digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the \"-\", \"_\", \"+\", and \".\" characters."
	// +kubebuilder:validation:XValidation:rule=`!self.contains('@') || self.find('[^@:]*$').size() >= 32`,message="digest is not valid. the encoded string must be at least 32 characters"
	// +kubebuilder:validation:XValidation:rule=`!self.contains('@') || self.find('[^@:]*$').matches('^[0-9A-Fa-f]*$')`,message="digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)"
	// +required
	Ref string `json:"ref"`

	// pollIntervalMinutes is the interval, in minutes, at which the registry is checked for a new image with the tag. It cannot
	// be set if ref contains a digest, because the image then never changes. If it is not set, new images are not detected.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	PollIntervalMinutes *int `json:"pollIntervalMinutes,omitempty"`
}

// ClusterCatalogStatus describes the content of a catalog and whether it is served.
type ClusterCatalogStatus struct {
	// conditions describe the state of the catalog. Serving is True if the content is served. Progressing is True with reason
	// Succeeded if the content is up to date, True with reason Retrying after a problem that may be temporary, and False with
	// reason Blocked after a problem that persists until the image or the ClusterCatalog changes. Until a problem is resolved,
	// the last valid content is served.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// resolvedSource is the source of the served content.
	//
	// +optional
	ResolvedSource *ResolvedCatalogSource `json:"resolvedSource,omitempty"`

	// urls contains the URLs at which the content is served.
	//
	// +optional
	URLs *ClusterCatalogURLs `json:"urls,omitempty"`

	// lastUnpacked is the time at which the served content was read from its source.
	//
	// +optional
	LastUnpacked *metav1.Time `json:"lastUnpacked,omitempty"`
}

// ClusterCatalogURLs contains the URLs at which a catalog is served.
type ClusterCatalogURLs struct {
	// base is the URL of the catalog within the cluster. Clients append a path: api/v1/all for the whole content, as JSON
	// lines, or api/v1/metas for the objects that match the query parameters schema, package and name.
	//
	// +kubebuilder:validation:MaxLength=525
	// +kubebuilder:validation:XValidation:rule="isURL(self)",message="must be a valid URL"
	// +kubebuilder:validation:XValidation:rule=`!isURL(self) || url(self).getScheme() in ['http', 'https']`,message="scheme must be either http or https"
	// +required
	Base string `json:"base"`
}

// ResolvedCatalogSource is the source of a catalog's content.
//
// +kubebuilder:validation:XValidation:rule=`self.type == 'Image' ? has(self.image) : !has(self.image)`,message="image is required when source type is Image, and forbidden otherwise"
type ResolvedCatalogSource struct {
	// type is the type of the source.
	//
	// +kubebuilder:validation:Enum=Image
	// +required
	Type CatalogSourceType `json:"type"`

	// image is the image that was read.
	//
	// +optional
	Image *ResolvedImageSource `json:"image,omitempty"`
}

// ResolvedImageSource is an image that was read.
type ResolvedImageSource struct {
	// ref is the name of the image with its digest.
	//
	// +kubebuilder:validation:MaxLength=1000
	// +required
	Ref string `json:"ref"`
}
