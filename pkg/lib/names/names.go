package names

// ReportPrefix and the name of an InstallPlan form the name of the ConfigMap with its report.
const ReportPrefix = "remit-report-"

// Identities of Remit.
const (
	// FieldManager is the field manager of everything that Remit applies as an account. For objects with a lineage, the
	// lineage mark is appended.
	FieldManager = "remit"
	// UserAgentCatalog and UserAgentOLM distinguish the two programs in an audit log.
	UserAgentCatalog = "remit-catalog"
	UserAgentOLM     = "remit-olm"
	// DefaultNamespace is the namespace in which the manifests install Remit.
	DefaultNamespace = "remit"
	// SecretProof is the name of the Secret in Remit's namespace with the keys of proofs.
	SecretProof = "remit-proof"
	// DefaultCatalogNamespace is the global catalog namespace in the manifests. It contains nothing else of Remit.
	DefaultCatalogNamespace = "remit-catalogs"
	// ServiceAccountCatalog and ServiceAccountOLM are the controller identities.
	ServiceAccountCatalog = "remit-catalog"
	ServiceAccountOLM     = "remit-olm"
)

// PrefixOwn is the prefix of Remit's own labels and annotations, which bundles cannot set.
const PrefixOwn = "remit.dev/"

// Owner labels of everything that an install creates (OLM v0 contract, 1.18).
const (
	LabelManaged        = "olm.managed"
	LabelOwner          = "olm.owner"
	LabelOwnerNamespace = "olm.owner.namespace"
	LabelOwnerKind      = "olm.owner.kind"
	// LabelLineage is Remit's owner mark: a hash of package and Subscription namespace, within which a later version can change
	// objects of an earlier one (security model, rule 7).
	LabelLineage = "remit.dev/lineage"
)

// Labels that describe the purpose of an object.
const (
	LabelCopiedFrom         = "olm.copiedFrom"
	LabelPermissionsHash    = "olm.permissions.hash"
	LabelDeploymentSpecHash = "olm.deployment-spec-hash"
	// LabelWebhookGenerateName and LabelWebhookHash identify the webhook description of a configuration.
	LabelWebhookGenerateName = "olm.webhook-description-generate-name"
	LabelWebhookHash         = "olm.webhook-description-hash"
	// LabelCatalogSource on a Pod, and in a Service's selector, names the CatalogSource whose registry it serves. It is empty
	// on an update Pod, where LabelCatalogSourceUpdate names the CatalogSource.
	LabelCatalogSource       = "olm.catalogSource"
	LabelCatalogSourceUpdate = "catalogsource.operators.coreos.com/update"
	// LabelPodSpecHash and LabelServiceSpecHash identify the desired Pod and Service of a registry, regardless of changes by
	// admission.
	LabelPodSpecHash     = "olm.pod-spec-hash"
	LabelServiceSpecHash = "olm.service-spec-hash"
	// LabelPullSecretsHash does the same for the pull secrets of a registry's ServiceAccount.
	LabelPullSecretsHash = "remit.dev/pull-secrets-hash" //nolint:gosec // the name of a label
	// LabelComponentPrefix is followed by <package>.<namespace>, truncated to 63 characters.
	LabelComponentPrefix = "operators.coreos.com/"
)

// Annotations.
const (
	AnnotationOperatorGroup     = "olm.operatorGroup"
	AnnotationOperatorNamespace = "olm.operatorNamespace"
	AnnotationTargetNamespaces  = "olm.targetNamespaces"
	AnnotationSkipRange         = "olm.skipRange"
	AnnotationProperties        = "operatorframework.io/properties"
	// AnnotationInstalledAlongsidePrefix is followed by a hash of the CSV; the value is <ns>/<csv>.
	AnnotationInstalledAlongsidePrefix = "operatorframework.io/installed-alongside-"
	// AnnotationPriorityClass on a CatalogSource names the PriorityClass of its registry's Pod.
	AnnotationPriorityClass = "operatorframework.io/priorityclass"
	// AnnotationSafeToEvict tells the cluster autoscaler that a Pod can be evicted.
	AnnotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// AnnotationCAHash identifies the certificate authority of a serving certificate, on its Secret and on the Pods that use it.
	AnnotationCAHash = "olmcahash"
	// AnnotationCAHashes on a Service lists the authorities that Remit has issued for it and not retired yet.
	AnnotationCAHashes = "remit.dev/ca-hashes"
	// AnnotationConversion on a CustomResourceDefinition names the Service, <ns>/<name>, that Remit configured for conversion.
	AnnotationConversion = "remit.dev/conversion"
	// ConversionReset is the value of AnnotationConversion after Remit removed the webhook.
	ConversionReset = "none"
	// AnnotationGeneratedBy on a Subscription that Remit created for a dependency names the Subscription that needs it.
	AnnotationGeneratedBy = "olm.generated-by"
	// AnnotationExcludeGlobal on an OperatorGroup, with the value "true", excludes the global catalogs from its namespace's
	// resolution.
	AnnotationExcludeGlobal = "olm.operatorframework.io/exclude-global-namespace-resolution"
	// AnnotationProof on an object is the proof that an install created it (docs/adr/0019).
	AnnotationProof = "remit.dev/proof"
	// AnnotationPlan on an InstallPlan lists the bundles that it installs; its name commits to the value.
	AnnotationPlan = "remit.dev/plan"
	// AnnotationContent on an InstallPlan contains the compressed content of those bundles, so that users can see what they
	// approve. The plan's name commits to it, too (docs/adr/0040).
	AnnotationContent = "remit.dev/content"
)

// EnvOperatorConditionName is set in every container of an operator's Deployments.
const EnvOperatorConditionName = "OPERATOR_CONDITION_NAME"

// FinalizerCSV delays the deletion of a CSV until its cluster-scoped and cross-namespace objects are removed.
const FinalizerCSV = "operators.coreos.com/csv-cleanup"

// Conditions that Remit adds to kinds of OLM v0, in addition to the contract's.
const (
	// ConditionPermissionsMissing on InstallPlans and Subscriptions is True while the account is missing permissions. Its
	// message lists them, with RBAC to apply.
	ConditionPermissionsMissing = "PermissionsMissing"
	// ReasonAccountLacksPermissions, ReasonPermissionsHeld and ReasonPermissionsUndecided are the reasons of
	// ConditionPermissionsMissing.
	ReasonAccountLacksPermissions = "AccountLacksPermissions"
	ReasonPermissionsHeld         = "PermissionsHeld"
	ReasonPermissionsUndecided    = "PermissionsUndecided"
	// ConditionObjectsRefused on InstallPlans and Subscriptions is True while the API server or a collision prevents a write of
	// the plan. Its message names the object and the cause.
	ConditionObjectsRefused = "ObjectsRefused"
	// ReasonRefusedByAPIServer, ReasonAcceptedByAPIServer and ReasonNotTried are the reasons of ConditionObjectsRefused.
	ReasonRefusedByAPIServer  = "RefusedByAPIServer"
	ReasonAcceptedByAPIServer = "AcceptedByAPIServer"
	ReasonNotTried            = "NotTried"
	// ConditionExceedsAccount on a Subscription is True while the installed operator has permissions that its account does not
	// have. The ClusterServiceVersion's message says the same under this name (security model, D4).
	ConditionExceedsAccount = "ExceedsAccount"
	// ConditionUpgradeHeldBack on a Subscription is True while the installed version is kept although its channel has a newer
	// one. Its message says why. The installed version itself is not affected.
	ConditionUpgradeHeldBack = "UpgradeHeldBack"
	// ReasonBundleContentUnavailable on an InstallPlan's Installed condition means that the catalog does not have the content
	// that the plan was made for.
	ReasonBundleContentUnavailable = "BundleContentUnavailable"
	// ReasonSuperseded on an InstallPlan's Installed condition means that a newer plan replaced it before it was executed.
	ReasonSuperseded = "Superseded"
)
