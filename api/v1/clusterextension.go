package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterExtension installs one version of a package from a ClusterCatalog, and upgrades it. It does so only with the
// permissions of its identity, which has none until an administrator grants them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Installed Bundle",type=string,JSONPath=`.status.install.bundle.name`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.install.bundle.version`
// +kubebuilder:printcolumn:name="Installed",type=string,JSONPath=`.status.conditions[?(@.type=='Installed')].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=='Progressing')].status`
// +kubebuilder:printcolumn:name="Authorized",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=='Authorized')].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterExtension struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes what to install and with which permissions.
	//
	// +optional
	Spec ClusterExtensionSpec `json:"spec,omitempty"`

	// status describes what is installed and what the installation is waiting for.
	//
	// +optional
	Status ClusterExtensionStatus `json:"status,omitzero"`
}

// ClusterExtensionList is a list of ClusterExtensions.
//
// +kubebuilder:object:root=true
type ClusterExtensionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items contains the ClusterExtensions.
	Items []ClusterExtension `json:"items"`
}

// ClusterExtensionSpec describes what to install and with which permissions.
type ClusterExtensionSpec struct {
	// namespace is the namespace of the extension. It contains the namespaced objects of the bundle and the ServiceAccount
	// that serviceAccount names. It must exist, and cannot be changed.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace is immutable"
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')`,message="namespace must be a valid DNS1123 label"
	// +required
	Namespace string `json:"namespace"`

	// serviceAccount is the identity that installs and manages the extension. If it is not set, the identity is the user
	// "olm:clusterextension:<name of the ClusterExtension>" in the group "olm:clusterextensions", which has no permissions
	// until an administrator grants them.
	//
	// +optional
	ServiceAccount ServiceAccountReference `json:"serviceAccount,omitzero"`

	// source determines where the content of the extension comes from.
	//
	// +required
	Source SourceConfig `json:"source"`

	// install configures the installation.
	//
	// +optional
	Install *ClusterExtensionInstallConfig `json:"install,omitempty"`

	// config contains configuration for the bundle. It must match what the bundle supports. If it is not set, the bundle's
	// defaults apply.
	//
	// +optional
	Config *ClusterExtensionConfig `json:"config,omitempty"`

	// progressDeadlineMinutes is the number of minutes within which a version must become available. After that time, the
	// condition Progressing becomes False with reason ProgressDeadlineExceeded. If it is not set, there is no deadline.
	//
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=720
	// +optional
	ProgressDeadlineMinutes int32 `json:"progressDeadlineMinutes,omitempty"`
}

// ServiceAccountReference names a ServiceAccount in the namespace of the extension.
type ServiceAccountReference struct {
	// name is the name of the ServiceAccount.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="name must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters"
	// +required
	Name string `json:"name"`
}

// SourceType is the type of an extension's source.
type SourceType string

// SourceTypeCatalog means that an extension is installed from a ClusterCatalog.
const SourceTypeCatalog SourceType = "Catalog"

// SourceConfig determines where the content of an extension comes from.
//
// +kubebuilder:validation:XValidation:rule=`self.sourceType == 'Catalog' ? has(self.catalog) : !has(self.catalog)`,message="catalog is required when sourceType is Catalog, and forbidden otherwise"
type SourceConfig struct {
	// sourceType is the type of the source. The only type is Catalog, which requires the field catalog.
	//
	// +kubebuilder:validation:Enum=Catalog
	// +required
	SourceType SourceType `json:"sourceType"`

	// catalog selects a package and its versions from the ClusterCatalogs of the cluster.
	//
	// +optional
	Catalog *CatalogFilter `json:"catalog,omitempty"`
}

// CatalogFilter selects a package and its versions. The newest version that matches all fields is installed.
type CatalogFilter struct {
	// packageName is the name of the package. It cannot be changed.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="packageName is immutable"
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="packageName must be a valid DNS1123 subdomain. It must contain only lowercase alphanumeric characters, hyphens (-) or periods (.), start and end with an alphanumeric character, and be no longer than 253 characters"
	// +required
	PackageName string `json:"packageName"`

	// version is a semantic version, or a range of versions such as ">=1.2.0, <2.0.0", "1.4.x", "~1.4" or "^1 || ^3". A
	// single version, such as "1.4.2", pins the extension to this version. If it is not set, every version matches.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches('^\\s*(=|!=|<|>|<=|>=|=<|=>|~|~>|\\^)?\\s*v?([0-9]+|[xX*])([.]([0-9]+|[xX*])){0,2}(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?((\\s*(,|\\|\\|)|\\s)\\s*(=|!=|<|>|<=|>=|=<|=>|~|~>|\\^)?\\s*v?([0-9]+|[xX*])([.]([0-9]+|[xX*])){0,2}(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?)*\\s*$')`,message="invalid version expression"
	// +optional
	Version string `json:"version,omitempty"`

	// channels lists the channels whose versions match. If it is not set, the versions of every channel match.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')`,message="channels entries must be valid DNS1123 subdomains"
	// +optional
	Channels []string `json:"channels,omitempty"`

	// selector selects ClusterCatalogs by their labels. Every ClusterCatalog has the label
	// olm.operatorframework.io/metadata.name with its name. If it is not set, every ClusterCatalog is selected.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// upgradeConstraintPolicy determines which versions can replace the installed version. CatalogProvided allows only the
	// versions to which the catalog has an upgrade path. SelfCertified allows every version that matches, including older
	// versions, which can cause data loss.
	//
	// +kubebuilder:validation:Enum=CatalogProvided;SelfCertified
	// +kubebuilder:default=CatalogProvided
	// +optional
	UpgradeConstraintPolicy UpgradeConstraintPolicy `json:"upgradeConstraintPolicy,omitempty"`
}

// UpgradeConstraintPolicy determines which versions can replace an installed version.
type UpgradeConstraintPolicy string

const (
	// UpgradeConstraintPolicyCatalogProvided allows the upgrade paths of the catalog.
	UpgradeConstraintPolicyCatalogProvided UpgradeConstraintPolicy = "CatalogProvided"
	// UpgradeConstraintPolicySelfCertified allows every version.
	UpgradeConstraintPolicySelfCertified UpgradeConstraintPolicy = "SelfCertified"
)

// ClusterExtensionInstallConfig configures an installation.
//
// +kubebuilder:validation:XValidation:rule="has(self.preflight)",message="at least one of [preflight] are required when install is specified"
type ClusterExtensionInstallConfig struct {
	// preflight configures the checks before an installation or upgrade.
	//
	// +optional
	Preflight *PreflightConfig `json:"preflight,omitempty"`
}

// PreflightConfig configures the checks before an installation or upgrade.
//
// +kubebuilder:validation:XValidation:rule="has(self.crdUpgradeSafety)",message="at least one of [crdUpgradeSafety] are required when preflight is specified"
type PreflightConfig struct {
	// crdUpgradeSafety configures the check of changes to CustomResourceDefinitions.
	//
	// +optional
	CRDUpgradeSafety *CRDUpgradeSafetyPreflightConfig `json:"crdUpgradeSafety,omitempty"`
}

// CRDUpgradeSafetyPreflightConfig configures the check of changes to CustomResourceDefinitions.
type CRDUpgradeSafetyPreflightConfig struct {
	// enforcement is Strict to refuse upgrades that can make existing objects invalid or lose their data, or None to skip the
	// check. If spec.install is not set, the check is strict.
	//
	// +kubebuilder:validation:Enum=None;Strict
	// +required
	Enforcement CRDUpgradeSafetyEnforcement `json:"enforcement"`
}

// CRDUpgradeSafetyEnforcement determines whether changes to CustomResourceDefinitions are checked.
type CRDUpgradeSafetyEnforcement string

const (
	// CRDUpgradeSafetyEnforcementNone skips the check.
	CRDUpgradeSafetyEnforcementNone CRDUpgradeSafetyEnforcement = "None"
	// CRDUpgradeSafetyEnforcementStrict refuses unsafe changes.
	CRDUpgradeSafetyEnforcementStrict CRDUpgradeSafetyEnforcement = "Strict"
)

// ClusterExtensionConfigType is a type of configuration.
type ClusterExtensionConfigType string

// ClusterExtensionConfigTypeInline means that the configuration is part of the ClusterExtension.
const ClusterExtensionConfigTypeInline ClusterExtensionConfigType = "Inline"

// ClusterExtensionConfig contains configuration for a bundle.
//
// +kubebuilder:validation:XValidation:rule=`self.configType == 'Inline' ? has(self.inline) : !has(self.inline)`,message="inline is required when configType is Inline, and forbidden otherwise"
type ClusterExtensionConfig struct {
	// configType is the type of the configuration. The only type is Inline, which requires the field inline.
	//
	// +kubebuilder:validation:Enum=Inline
	// +required
	ConfigType ClusterExtensionConfigType `json:"configType"`

	// inline is an object with the configuration. Bundles of the format registry+v1 support the fields watchNamespace and
	// deploymentConfig.
	//
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	// +optional
	Inline *apiextensionsv1.JSON `json:"inline,omitempty"`
}

// ClusterExtensionStatus describes what is installed and what the installation is waiting for.
type ClusterExtensionStatus struct {
	// conditions describe the state of the extension. Installed reports whether a version is installed. Available reports
	// whether it is available. Progressing reports whether the desired version has been reached or what prevents this.
	// Authorized reports whether the identity has the permissions that the desired version needs. PackageDeprecated,
	// ChannelDeprecated and BundleDeprecated report deprecations in the catalog, and Deprecated summarizes them.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// install describes the installed version.
	//
	// +optional
	Install *ClusterExtensionInstallStatus `json:"install,omitempty"`

	// identity is the identity that installs and manages the extension. Permissions are granted to it.
	//
	// +optional
	Identity *Identity `json:"identity,omitempty"`

	// namespace records the namespace for which the author of the spec was allowed to use the ServiceAccount. If the namespace is
	// created, perhaps again, after the spec was written, the spec must be changed before anything is installed into it.
	//
	// +optional
	Namespace *NamespaceRecord `json:"namespace,omitempty"`

	// inventory lists the applied objects, at most 1000 of them.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Inventory []InventoryObject `json:"inventory,omitempty"`
}

// ClusterExtensionInstallStatus describes an installed version.
type ClusterExtensionInstallStatus struct {
	// bundle identifies the installed bundle.
	//
	// +required
	Bundle BundleMetadata `json:"bundle"`
}

// BundleMetadata identifies a bundle.
type BundleMetadata struct {
	// name is the name of the bundle.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// version is the semantic version of the bundle.
	//
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[0-9]+([.][0-9]+){0,2}(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')`,message="version must be well-formed semver"
	// +kubebuilder:validation:MaxLength=253
	// +required
	Version string `json:"version"`

	// release distinguishes bundles of the same version.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Release string `json:"release,omitempty"`
}

// IdentityKind is a kind of identity: the kind of the subject in a RoleBinding.
type IdentityKind string

const (
	// IdentityKindServiceAccount means that spec.serviceAccount names the identity.
	IdentityKindServiceAccount IdentityKind = "ServiceAccount"
	// IdentityKindUser means that the identity is the user of the ClusterExtension.
	IdentityKindUser IdentityKind = "User"
)

// Identity is a subject of RBAC.
type Identity struct {
	// kind is ServiceAccount or User.
	//
	// +kubebuilder:validation:Enum=ServiceAccount;User
	// +required
	Kind IdentityKind `json:"kind"`

	// namespace is the namespace of the ServiceAccount. Users have none.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the ServiceAccount or user.
	//
	// +kubebuilder:validation:MaxLength=512
	// +required
	Name string `json:"name"`

	// groups lists the groups of the identity. The identity also has the permissions that are granted to these groups.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	// +optional
	Groups []string `json:"groups,omitempty"`
}

// NamespaceRecord identifies a namespace and its ServiceAccount. An admission policy allows only the controller to write it.
type NamespaceRecord struct {
	// generation is the first generation of the ClusterExtension whose author is known to have been checked for this namespace. It is
	// greater than that of the ClusterExtension if the namespace was created after the last change of the spec.
	//
	// +required
	Generation int64 `json:"generation"`

	// uid is the UID of the namespace.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	UID string `json:"uid"`

	// serviceAccountUID is the UID of the ServiceAccount.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceAccountUID string `json:"serviceAccountUID,omitempty"`
}

// MaxInventory is the maximum number of objects in the inventory of a ClusterExtension.
const MaxInventory = 1000

// InventoryObject identifies an applied object. It helps to find objects, but does not prove that an object belongs to
// the extension.
type InventoryObject struct {
	// group is the API group of the object. It is empty for the core group.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`

	// kind is the kind of the object.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Kind string `json:"kind"`

	// namespace is the namespace of the object. It is empty for cluster-scoped objects.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}
