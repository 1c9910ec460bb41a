package v1

// Condition types of a ClusterExtension.
const (
	// TypeInstalled reports whether a version of the package is installed.
	TypeInstalled = "Installed"
	// TypeProgressing reports whether the object has reached its desired state or is progressing toward it.
	// ClusterCatalogs also have this condition.
	TypeProgressing = "Progressing"
	// TypeAuthorized reports whether the extension's identity has every permission that the desired version needs. OLM v1
	// has no such condition.
	TypeAuthorized = "Authorized"
	// TypeExceedsIdentity is True while the installed version has permissions that the identity does not have, or after they
	// were removed. Otherwise, it does not exist. OLM v1 has no such condition.
	TypeExceedsIdentity = "ExceedsIdentity"
	// TypeAvailable reports whether the objects of the installed version are available.
	TypeAvailable = "Available"
	// TypeDeprecated summarizes the three conditions that follow: it is True if at least one of them is True.
	TypeDeprecated = "Deprecated"
	// TypePackageDeprecated, TypeChannelDeprecated and TypeBundleDeprecated report deprecations in the catalog.
	TypePackageDeprecated = "PackageDeprecated"
	TypeChannelDeprecated = "ChannelDeprecated"
	TypeBundleDeprecated  = "BundleDeprecated"
)

// TypeServing reports whether the content of a ClusterCatalog is served.
const TypeServing = "Serving"

// Reasons of the conditions Installed and Progressing.
const (
	// ReasonSucceeded means that the desired state has been reached. It is also a reason of a ClusterCatalog's
	// Progressing condition.
	ReasonSucceeded = "Succeeded"
	// ReasonRollingOut means that the objects of a version are being applied, or are not yet available.
	ReasonRollingOut = "RollingOut"
	// ReasonRetrying means that a problem was found that may be resolved without a change to the spec. It is also a
	// reason of a ClusterCatalog's Progressing condition.
	ReasonRetrying = "Retrying"
	// ReasonBlocked means that a problem was found that persists until something is changed. It is also a reason of a
	// ClusterCatalog's Progressing condition.
	ReasonBlocked = "Blocked"
	// ReasonInvalidConfiguration means that the bundle does not accept spec.config.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonProgressDeadlineExceeded means that spec.progressDeadlineMinutes passed before the desired state was reached.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonFailed means that no version could be installed, or that it is unknown whether one is installed.
	ReasonFailed = "Failed"
	// ReasonAbsent means that no version is installed. It is also the reason of deprecation conditions that do not apply,
	// because there is no bundle.
	ReasonAbsent = "Absent"
)

// ReasonNotObserved is a reason of the condition Available: the state of the objects is not known, because the program has not
// observed them since it started, or cannot observe them.
const ReasonNotObserved = "NotObserved"

// Reasons of the deprecation conditions, in addition to ReasonAbsent.
const (
	ReasonDeprecated               = "Deprecated"
	ReasonNotDeprecated            = "NotDeprecated"
	ReasonDeprecationStatusUnknown = "DeprecationStatusUnknown"
)

// Reasons of the condition Authorized, in addition to ReasonSucceeded.
const (
	// ReasonMissingPermissions means that the identity is missing permissions.
	ReasonMissingPermissions = "MissingPermissions"
	// ReasonIdentityNotFound means that the ServiceAccount does not exist.
	ReasonIdentityNotFound = "IdentityNotFound"
	// ReasonIdentityReserved means that the ServiceAccount is one of Remit's own.
	ReasonIdentityReserved = "IdentityReserved"
	// ReasonNamespaceRecreated means that the namespace of the ServiceAccount was created, perhaps again, after the spec was written.
	ReasonNamespaceRecreated = "NamespaceRecreated"
	// ReasonNotEnrolled means that Remit is not allowed to act as the identity.
	ReasonNotEnrolled = "NotEnrolled"
	// ReasonEvaluationIncomplete means that the permissions could not be determined completely.
	ReasonEvaluationIncomplete = "EvaluationIncomplete"
)

// Reasons of the condition ExceedsIdentity.
const (
	// ReasonGracePeriod means that the permissions will be removed at the time in the message.
	ReasonGracePeriod = "GracePeriod"
	// ReasonKept means that the permissions are only reported.
	ReasonKept = "Kept"
	// ReasonRemoved means that the permissions were removed. They are restored when the identity has them again.
	ReasonRemoved = "Removed"
	// ReasonNotRemoved means that the identity is not allowed to remove the permissions.
	ReasonNotRemoved = "NotRemoved"
)

// Reasons of a ClusterCatalog's condition Serving.
const (
	// ReasonAvailable means that the content is served.
	ReasonAvailable = "Available"
	// ReasonUnavailable means that there is no content to serve.
	ReasonUnavailable = "Unavailable"
	// ReasonUserSpecifiedUnavailable means that spec.availabilityMode is Unavailable.
	ReasonUserSpecifiedUnavailable = "UserSpecifiedUnavailable"
)

// LabelMetadataName is the label that contains the name of a ClusterCatalog, so that a ClusterExtension can select it by
// name.
const LabelMetadataName = "olm.operatorframework.io/metadata.name"
