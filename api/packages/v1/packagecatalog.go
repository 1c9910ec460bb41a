package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PackageCatalog is a catalog whose packages are served. The catalog program writes its content subresource.
//
// +kubebuilder:object:root=true
type PackageCatalog struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// Status describes the content.
	Status PackageCatalogStatus `json:"status,omitempty"`
}

// PackageCatalogList is a list of PackageCatalogs.
//
// +kubebuilder:object:root=true
type PackageCatalogList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []PackageCatalog `json:"items"`
}

// PackageCatalogStatus describes the content of a catalog.
type PackageCatalogStatus struct {
	// Digest identifies the content.
	Digest string `json:"digest"`
	// Packages is the number of packages.
	Packages int `json:"packages"`
	// CatalogSourceUID is the UID of the CatalogSource.
	CatalogSourceUID string `json:"catalogSourceUID"`
}
