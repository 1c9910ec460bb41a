package names

// ReportPrefix and the name of an InstallPlan form the name of the ConfigMap with the plan's preflight report.
const ReportPrefix = "remit-report-"

// ContentPrefix and the name of a ClusterExtension form the name of the ConfigMap with the content of the installed version.
const ContentPrefix = "remit-content-clusterextension-"

// Identities that Remit uses.
const (
	// FieldManager is the field manager of everything that Remit applies as an account. For objects with a lineage, the
	// lineage mark is appended.
	FieldManager = "remit"
	// UserAgentCatalog, UserAgentOLM and UserAgentExtension distinguish Remit's programs in audit logs.
	UserAgentCatalog   = "remit-catalog"
	UserAgentOLM       = "remit-olm"
	UserAgentExtension = "remit-extension"
	// UserAgentPackageServer, ServiceAccountPackageServer and ServicePackageServer belong to the program that serves
	// PackageManifests.
	UserAgentPackageServer      = "remit-package-server"
	ServiceAccountPackageServer = "remit-package-server"
	ServicePackageServer        = "remit-package-server"
	// DefaultNamespace is the namespace in which the manifests install Remit.
	DefaultNamespace = "remit"
	// SecretProof is the name of the Secret in Remit's namespace that contains the keys for proofs.
	SecretProof = "remit-proof"
	// DefaultCatalogNamespace is the global catalog namespace in the manifests. Remit's programs do not run in it.
	DefaultCatalogNamespace = "remit-catalogs"
	// ServiceAccountCatalog and ServiceAccountOLM are the controller identities of the programs catalog and olm.
	ServiceAccountCatalog = "remit-catalog"
	ServiceAccountOLM     = "remit-olm"
	// ServiceAccountExtension is the controller identity of the program that installs ClusterExtensions.
	ServiceAccountExtension = "remit-extension"
	// ServiceAccountRemover is the optional identity that removes permissions that exceed the account (docs/adr/0075).
	ServiceAccountRemover = "remit-remover"
	// ServiceCatalogContent is the Service in Remit's namespace at which the content of ClusterCatalogs is served, and
	// ConfigMapCatalogContentCA is the ConfigMap with the CAs to trust for it, under the key KeyCA.
	ServiceCatalogContent     = "remit-catalog-content"
	ConfigMapCatalogContentCA = "remit-catalog-content-ca"
	KeyCA                     = "ca.crt"
)

// The synthetic user of a ClusterExtension that names no ServiceAccount, and the group of all such users, as in OLM v1.
const (
	// UserExtensionPrefix and the name of the ClusterExtension form the user name.
	UserExtensionPrefix = "olm:clusterextension:"
	GroupExtensions     = "olm:clusterextensions"
)

// PrefixOwn is the prefix of Remit's own labels and annotations, which bundles cannot set.
const PrefixOwn = "remit.dev/"

// Owner labels on all objects that an install creates (OLM v0 contract).
const (
	LabelManaged        = "olm.managed"
	LabelOwner          = "olm.owner"
	LabelOwnerNamespace = "olm.owner.namespace"
	LabelOwnerKind      = "olm.owner.kind"
	// LabelLineage is Remit's ownership label: the mark of the lineage, a hash of the package and the Subscription
	// namespace. A later version in the same lineage can change objects of an earlier one (rule 7 of the security model).
	LabelLineage = "remit.dev/lineage"
	// LabelExtensionKind and LabelExtensionName are the owner labels of OLM v1 on the objects of a ClusterExtension.
	LabelExtensionKind = "olm.operatorframework.io/owner-kind"
	LabelExtensionName = "olm.operatorframework.io/owner-name"
)

// Labels that describe the purpose of an object.
const (
	LabelCopiedFrom         = "olm.copiedFrom"
	LabelPermissionsHash    = "olm.permissions.hash"
	LabelDeploymentSpecHash = "olm.deployment-spec-hash"
	// LabelWebhookGenerateName and LabelWebhookHash identify the webhook description from which a configuration is
	// rendered.
	LabelWebhookGenerateName = "olm.webhook-description-generate-name"
	LabelWebhookHash         = "olm.webhook-description-hash"
	// LabelCatalogSource on a Pod, and in a Service's selector, names the CatalogSource to which the registry belongs.
	// The label is empty on an update Pod, where LabelCatalogSourceUpdate names the CatalogSource.
	LabelCatalogSource       = "olm.catalogSource"
	LabelCatalogSourceUpdate = "catalogsource.operators.coreos.com/update"
	// LabelPodSpecHash and LabelServiceSpecHash are hashes of the desired Pod and Service of a registry, before changes
	// made by admission.
	LabelPodSpecHash     = "olm.pod-spec-hash"
	LabelServiceSpecHash = "olm.service-spec-hash"
	// LabelPullSecretsHash is a hash of the desired pull secrets of a registry's ServiceAccount.
	LabelPullSecretsHash = "remit.dev/pull-secrets-hash" //nolint:gosec // the name of a label
	// LabelComponentPrefix is the prefix of a label key that ends in <package>.<namespace>, truncated to 63 characters.
	LabelComponentPrefix = "operators.coreos.com/"
)

// Annotations.
const (
	AnnotationOperatorGroup     = "olm.operatorGroup"
	AnnotationOperatorNamespace = "olm.operatorNamespace"
	AnnotationTargetNamespaces  = "olm.targetNamespaces"
	AnnotationSkipRange         = "olm.skipRange"
	AnnotationProperties        = "operatorframework.io/properties"
	// AnnotationInstalledAlongsidePrefix is the prefix of an annotation key that ends in a hash of the CSV; the value is
	// <ns>/<csv>.
	AnnotationInstalledAlongsidePrefix = "operatorframework.io/installed-alongside-"
	// AnnotationPriorityClass on a CatalogSource names the PriorityClass of its registry's Pod.
	AnnotationPriorityClass = "operatorframework.io/priorityclass"
	// AnnotationSafeToEvict tells the cluster autoscaler that a Pod can be evicted.
	AnnotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// AnnotationCAHash is the hash of the CA of a serving certificate. It is set on the certificate's Secret and on the
	// Pods that use the certificate.
	AnnotationCAHash = "olmcahash"
	// AnnotationCAHashes on a Service lists the hashes of the CAs that Remit has issued for the Service and has not
	// retired yet.
	AnnotationCAHashes = "remit.dev/ca-hashes"
	// AnnotationConversion on a CustomResourceDefinition names the Service, <ns>/<name>, that Remit configured for conversion.
	AnnotationConversion = "remit.dev/conversion"
	// ConversionReset is the value of AnnotationConversion after Remit has removed the webhook.
	ConversionReset = "none"
	// AnnotationGeneratedBy on a Subscription that Remit created for a dependency names the Subscription that needs it.
	AnnotationGeneratedBy = "olm.generated-by"
	// AnnotationUnpackTimeout on an OperatorGroup is the duration after which a bundle that is still being pulled is
	// reported as failed, such as "10m".
	AnnotationUnpackTimeout = "operatorframework.io/bundle-unpack-timeout"
	// AnnotationExcludeGlobal on an OperatorGroup, with the value "true", excludes the global catalogs from its namespace's
	// resolution.
	AnnotationExcludeGlobal = "olm.operatorframework.io/exclude-global-namespace-resolution"
	// AnnotationProof on an object is the proof that an install created it (docs/adr/0019).
	AnnotationProof = "remit.dev/proof"
	// AnnotationLineage on a ClusterServiceVersion that a user created names the lineage that it inherited from the version
	// that it replaced. The proof on the ClusterServiceVersion covers it.
	AnnotationLineage = "remit.dev/lineage-name"
	// AnnotationAccount on a ClusterServiceVersion is <namespace>/<name> of the account that last acted on it. While the namespace
	// has no OperatorGroup, only users who may impersonate that account may change the spec: the policy remit-csv-author-check
	// protects the annotation (docs/adr/0085).
	AnnotationAccount = "remit.dev/account"
	// LabelAnyAccount on a ClusterServiceVersion or a Subscription requires that whoever changes the spec may use every account that an
	// OperatorGroup of the namespace could name (docs/adr/0077).
	LabelAnyAccount = "remit.dev/any-account"
	// AnnotationCopyHash on a copied ClusterServiceVersion is a hash of what Remit last wrote into it.
	AnnotationCopyHash = "remit.dev/copy-hash"
	// AnnotationManagedBy on an OperatorGroup, with the value ManagedByOLM, means that OLM v0 manages everything that
	// the OperatorGroup governs in its namespace. On a CatalogSource, it means that OLM v0 manages the CatalogSource
	// (docs/adr/0061). Remit then does not manage these objects.
	AnnotationManagedBy = "remit.dev/managed-by"
	// AnnotationKeepExcess on an OperatorGroup, with the value "true", keeps permissions of installed operators that the
	// account no longer has (docs/adr/0071). An admission policy limits who may set it.
	AnnotationKeepExcess = "remit.dev/keep-excess-permissions"
	// AnnotationPlan on an InstallPlan lists the bundles that the plan installs. The hash in the plan's name covers the
	// value.
	AnnotationPlan = "remit.dev/plan"
	// AnnotationContent on an InstallPlan contains the compressed content of the plan's bundles, so that users can see
	// what they approve. The hash in the plan's name covers this value as well (docs/adr/0040).
	AnnotationContent = "remit.dev/content"
	// AnnotationTooLarge on an object in a program's cache is the memory, in bytes, that the complete object needs. The cache
	// contains only a part of such an object, which is not installed (docs/adr/0066). It is never written.
	AnnotationTooLarge = "remit.dev/too-large"
	// AnnotationUndecodable on an object that a program has read is the reason why a part of its spec cannot be decoded. The
	// object lacks that part, and is not installed (docs/adr/0086). It is never written.
	AnnotationUndecodable = "remit.dev/undecodable"
)

// HolderCopy is the holder in the proof of a copied ClusterServiceVersion. It differs from the marks of all lineages,
// because these are hashes.
const HolderCopy = "copied ClusterServiceVersion"

// HolderOperator is the holder in the proof of an Operator.
const HolderOperator = "Operator"

// ManagedByOLM is the only value of AnnotationManagedBy that has a meaning.
const ManagedByOLM = "olm"

// EnvOperatorConditionName is set in every container of an operator's Deployments.
const EnvOperatorConditionName = "OPERATOR_CONDITION_NAME"

// FinalizerCSV delays the deletion of a CSV until its cluster-scoped objects and those in other namespaces are
// removed.
const FinalizerCSV = "operators.coreos.com/csv-cleanup"

// FinalizerExtension delays the deletion of a ClusterExtension until the conversion webhooks of the CustomResourceDefinitions
// that are kept have been reset.
const FinalizerExtension = "olm.operatorframework.io/reset-conversions"

// Conditions and reasons that Remit sets on kinds of OLM v0, in addition to those of the contract.
const (
	// ConditionPermissionsMissing on InstallPlans and Subscriptions is True while the account is missing permissions. The
	// condition's message lists them, together with the RBAC to apply.
	ConditionPermissionsMissing = "PermissionsMissing"
	// ReasonAccountLacksPermissions, ReasonPermissionsHeld and ReasonPermissionsUndecided are the reasons of
	// ConditionPermissionsMissing.
	ReasonAccountLacksPermissions = "AccountLacksPermissions"
	ReasonPermissionsHeld         = "PermissionsHeld"
	ReasonPermissionsUndecided    = "PermissionsUndecided"
	// ConditionObjectsRefused on InstallPlans and Subscriptions is True while the API server refuses to write an object
	// of the plan or a collision prevents it. The condition's message names the object and the cause.
	ConditionObjectsRefused = "ObjectsRefused"
	// ReasonRefusedByAPIServer, ReasonRefusedByRemit, ReasonAcceptedByAPIServer and ReasonNotTried are the reasons of
	// ConditionObjectsRefused. ReasonRefusedByRemit means that the API server was not asked, or has refused none of the objects:
	// Remit does not write them, for example because they exist and belong to someone else.
	ReasonRefusedByAPIServer  = "RefusedByAPIServer"
	ReasonRefusedByRemit      = "RefusedByRemit"
	ReasonAcceptedByAPIServer = "AcceptedByAPIServer"
	ReasonNotTried            = "NotTried"
	// ConditionWebhooksIncluded on InstallPlans and Subscriptions is True if the plan contains webhooks. The condition's message
	// reports what they intercept and where. ReasonWebhooksDeclared is its only reason.
	ConditionWebhooksIncluded = "WebhooksIncluded"
	ReasonWebhooksDeclared    = "WebhooksDeclared"
	// ConditionExceedsAccount on a Subscription is True while the installed operator has permissions that its account
	// does not have. The ClusterServiceVersion's message also contains this name.
	ConditionExceedsAccount = "ExceedsAccount"
	// ConditionUpgradeHeldBack on a Subscription is True while the installed version is not upgraded although its channel
	// has a newer one. The condition's message explains why. The installed version continues to run.
	ConditionUpgradeHeldBack = "UpgradeHeldBack"
	// ConditionAuthorUnchecked of a Subscription is False once Remit knows the account that installs what it selects, which the
	// message names. It is for Subscriptions what AnnotationAccount is for ClusterServiceVersions.
	ConditionAuthorUnchecked = "AuthorUnchecked"
	// ReasonPlanIncomplete of the condition InstallPlanMissing on a Subscription means that the plan was deleted and may not have been
	// complete. OLM has another reason, which it also sets after a complete plan was deleted.
	ReasonPlanIncomplete = "IncompleteInstallPlanNotFound"
	// ReasonBundleContentUnavailable on an InstallPlan's Installed condition means that the catalog cannot provide the
	// content for which the plan was created, or now provides different content.
	ReasonBundleContentUnavailable = "BundleContentUnavailable"
	// ReasonSuperseded on an InstallPlan's Installed condition means that a newer plan replaced it before it was executed.
	ReasonSuperseded = "Superseded"
)

// shortMark is the length of the marks that Remit set before they had their full length (docs/adr/0070).
const shortMark = 16

// ShortMark returns the first half of a mark, which is the whole mark of older objects. It names field managers and indexes
// objects, but does not identify a lineage: its hash has only 80 bits.
func ShortMark(mark string) string { return mark[:min(len(mark), shortMark)] }
