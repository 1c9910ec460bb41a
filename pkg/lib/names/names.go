package names

// ReportPrefix is followed by the name of an InstallPlan: the ConfigMap of its report.
const ReportPrefix = "remit-report-"

// Identities of Remit itself.
const (
	// FieldManager is the server-side-apply manager of all that Remit writes as an account; the mark of
	// the lineage follows where the object has one.
	FieldManager = "remit"
	// UserAgentCatalog and UserAgentOLM tell the two programs apart in an audit log.
	UserAgentCatalog = "remit-catalog"
	UserAgentOLM     = "remit-olm"
	// DefaultNamespace is where the manifests install Remit.
	DefaultNamespace = "remit"
	// SecretProof, in Remit's own namespace, holds the keys of proofs.
	SecretProof = "remit-proof"
	// DefaultCatalogNamespace is the global catalog namespace of the manifests: nothing else of Remit is there.
	DefaultCatalogNamespace = "remit-catalogs"
	// ServiceAccountCatalog and ServiceAccountOLM are the two programs' own accounts ("self").
	ServiceAccountCatalog = "remit-catalog"
	ServiceAccountOLM     = "remit-olm"
)

// PrefixOwn begins the labels and annotations that are Remit's own; bundles may not set them.
const PrefixOwn = "remit.dev/"

// Owner marks on everything that an install creates (OLM v0 contract, 1.18).
const (
	LabelManaged        = "olm.managed"
	LabelOwner          = "olm.owner"
	LabelOwnerNamespace = "olm.owner.namespace"
	LabelOwnerKind      = "olm.owner.kind"
	// LabelLineage is Remit's owner mark: a hash of package and Subscription namespace, the unit
	// within which a later version may change what an earlier one made (security model, rule 7).
	LabelLineage = "remit.dev/lineage"
)

// Labels that say what an object is for.
const (
	LabelCopiedFrom         = "olm.copiedFrom"
	LabelPermissionsHash    = "olm.permissions.hash"
	LabelDeploymentSpecHash = "olm.deployment-spec-hash"
	// LabelWebhookGenerateName and LabelWebhookHash tell of which webhook description a configuration is.
	LabelWebhookGenerateName = "olm.webhook-description-generate-name"
	LabelWebhookHash         = "olm.webhook-description-hash"
	// LabelCatalogSource on a Pod, and in a Service's selector, names the CatalogSource whose registry it serves. It is
	// empty on a Pod that is to take the place of another: LabelCatalogSourceUpdate names the CatalogSource then.
	LabelCatalogSource       = "olm.catalogSource"
	LabelCatalogSourceUpdate = "catalogsource.operators.coreos.com/update"
	// LabelPodSpecHash and LabelServiceSpecHash tell what a registry's Pod and Service were made from; what
	// admission made of it since is not looked at.
	LabelPodSpecHash     = "olm.pod-spec-hash"
	LabelServiceSpecHash = "olm.service-spec-hash"
	// LabelPullSecretsHash is the same for the pull secrets of a registry's ServiceAccount.
	LabelPullSecretsHash = "remit.dev/pull-secrets-hash"
	// LabelComponentPrefix is followed by <package>.<namespace> (name part cut to 63).
	LabelComponentPrefix = "operators.coreos.com/"
)

// Annotations.
const (
	AnnotationOperatorGroup     = "olm.operatorGroup"
	AnnotationOperatorNamespace = "olm.operatorNamespace"
	AnnotationTargetNamespaces  = "olm.targetNamespaces"
	AnnotationProvidedAPIs      = "olm.providedAPIs"
	AnnotationSkipRange         = "olm.skipRange"
	AnnotationProperties        = "operatorframework.io/properties"
	// AnnotationInstalledAlongsidePrefix is followed by a hash of the CSV; the value is <ns>/<csv>.
	AnnotationInstalledAlongsidePrefix = "operatorframework.io/installed-alongside-"
	// AnnotationPriorityClass on a CatalogSource names the PriorityClass of its registry's Pod.
	AnnotationPriorityClass = "operatorframework.io/priorityclass"
	// AnnotationSafeToEvict tells a cluster's autoscaler that a Pod may be moved.
	AnnotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// AnnotationCAHash names the authority of a serving certificate, on its Secret and on the Pods that serve by it.
	AnnotationCAHash = "olmcahash"
	// AnnotationCAHashes on a Service lists the authorities that Remit has issued for it and not yet retired.
	AnnotationCAHashes = "remit.dev/ca-hashes"
	// AnnotationConversion on a CustomResourceDefinition says which Service, <ns>/<name>, Remit had it
	// converted by.
	AnnotationConversion = "remit.dev/conversion"
	// AnnotationGeneratedBy on a Subscription that Remit made for a dependency names the one that needs it.
	AnnotationGeneratedBy = "olm.generated-by"
	// AnnotationExcludeGlobal on an OperatorGroup, where it is "true", keeps the global catalogs out of its
	// namespace's resolution.
	AnnotationExcludeGlobal = "olm.operatorframework.io/exclude-global-namespace-resolution"
	// AnnotationProof on an object that an install created is Remit's proof of that (docs/adr/0019).
	AnnotationProof = "remit.dev/proof"
	// AnnotationPlan on an InstallPlan says which bundles it installs; its name commits to the value.
	AnnotationPlan = "remit.dev/plan"
)

// EnvOperatorConditionName is injected into every container of an operator's Deployments.
const EnvOperatorConditionName = "OPERATOR_CONDITION_NAME"

// FinalizerCSV lets a CSV's cluster-scoped and cross-namespace children be removed before it goes.
const FinalizerCSV = "operators.coreos.com/csv-cleanup"

// Conditions that Remit adds to kinds of OLM v0, next to the contract's own.
const (
	// ConditionPermissionsMissing on InstallPlans and Subscriptions is True while the account lacks
	// something; its message says what, with RBAC to paste.
	ConditionPermissionsMissing = "PermissionsMissing"
	// ReasonAccountLacksPermissions, ReasonPermissionsHeld and ReasonPermissionsUndecided are its reasons.
	ReasonAccountLacksPermissions = "AccountLacksPermissions"
	ReasonPermissionsHeld         = "PermissionsHeld"
	ReasonPermissionsUndecided    = "PermissionsUndecided"
	// ConditionObjectsRefused on InstallPlans and Subscriptions is True while the API server, or an object
	// that is in the way, refuses what the plan would write; its message says what and why.
	ConditionObjectsRefused = "ObjectsRefused"
	// ReasonRefusedByAPIServer, ReasonAcceptedByAPIServer and ReasonNotTried are its reasons.
	ReasonRefusedByAPIServer  = "RefusedByAPIServer"
	ReasonAcceptedByAPIServer = "AcceptedByAPIServer"
	ReasonNotTried            = "NotTried"
	// ConditionExceedsAccount on a Subscription is True while what is installed holds what its account holds
	// no more; the ClusterServiceVersion's message says the same under this word (security model, D4).
	ConditionExceedsAccount = "ExceedsAccount"
	// ConditionUpgradeHeldBack on a Subscription is True while the version that is installed stays although its
	// channel has another; its message says why. Nothing is wrong with what is installed.
	ConditionUpgradeHeldBack = "UpgradeHeldBack"
	// ReasonBundleContentUnavailable on an InstallPlan's Installed condition says that the catalog does
	// not have, or no longer has, the content that the plan was made for.
	ReasonBundleContentUnavailable = "BundleContentUnavailable"
	// ReasonSuperseded on an InstallPlan's Installed condition says that a newer plan took its place before it was carried out.
	ReasonSuperseded = "Superseded"
)
