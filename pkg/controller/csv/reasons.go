package csv

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Short names for phases and reasons that the contract defines.
const (
	phaseNone         = operatorsv1alpha1.CSVPhaseNone
	phasePending      = operatorsv1alpha1.CSVPhasePending
	phaseInstallReady = operatorsv1alpha1.CSVPhaseInstallReady
	phaseInstalling   = operatorsv1alpha1.CSVPhaseInstalling
	phaseSucceeded    = operatorsv1alpha1.CSVPhaseSucceeded
	phaseFailed       = operatorsv1alpha1.CSVPhaseFailed
	phaseReplacing    = operatorsv1alpha1.CSVPhaseReplacing
	phaseDeleting     = operatorsv1alpha1.CSVPhaseDeleting

	reasonRequirementsUnknown = operatorsv1alpha1.CSVReasonRequirementsUnknown
	reasonRequirementsNotMet  = operatorsv1alpha1.CSVReasonRequirementsNotMet
	reasonRequirementsMet     = operatorsv1alpha1.CSVReasonRequirementsMet
	reasonInstallSuccessful   = operatorsv1alpha1.CSVReasonInstallSuccessful
	reasonWaiting             = operatorsv1alpha1.CSVReasonWaiting
	reasonComponentFailed     = operatorsv1alpha1.CSVReasonComponentFailed
	reasonNoRetry             = operatorsv1alpha1.CSVReasonComponentFailedNoRetry
	reasonInstallCheckFailed  = operatorsv1alpha1.CSVReasonInstallCheckFailed
	reasonComponentUnhealthy  = operatorsv1alpha1.CSVReasonComponentUnhealthy
	reasonNeedsReinstall      = operatorsv1alpha1.CSVReasonNeedsReinstall
	reasonInvalidStrategy     = operatorsv1alpha1.CSVReasonInvalidStrategy
	reasonNoOperatorGroup     = operatorsv1alpha1.CSVReasonNoOperatorGroup
	reasonTooManyGroups       = operatorsv1alpha1.CSVReasonTooManyOperatorGroups
	reasonUnsupportedGroup    = operatorsv1alpha1.CSVReasonUnsupportedOperatorGroup
	reasonNoTargets           = operatorsv1alpha1.CSVReasonNoTargetNamespaces
	reasonOwnerConflictGroups = operatorsv1alpha1.CSVReasonInterOperatorGroupOwnerConflict
	reasonStaticAPIs          = operatorsv1alpha1.CSVReasonCannotModifyStaticOperatorGroupProvidedAPIs
	reasonInvalidModes        = operatorsv1alpha1.CSVReasonInvalidInstallModes
	reasonClusterChange       = operatorsv1alpha1.CSVReasonDetectedClusterChange
	reasonInvalidWebhook      = operatorsv1alpha1.CSVReasonInvalidWebhookDescription
	reasonAPIServiceFailed    = operatorsv1alpha1.CSVReasonAPIServiceInstallFailed
	reasonAPIServiceIssue     = operatorsv1alpha1.CSVReasonAPIServiceResourceIssue
	reasonOwnerConflict       = operatorsv1alpha1.CSVReasonOwnerConflict
	reasonNeedsCertRotation   = operatorsv1alpha1.CSVReasonNeedsCertRotation
	reasonBeingReplaced       = operatorsv1alpha1.CSVReasonBeingReplaced
	reasonReplaced            = operatorsv1alpha1.CSVReasonReplaced
	reasonNotUpgradeable      = operatorsv1alpha1.CSVReasonOperatorConditionNotUpgradeable
	// reasonExceedsAccount is specific to Remit.
	reasonExceedsAccount operatorsv1alpha1.ConditionReason = names.ConditionExceedsAccount
)

// Messages that the OLM v0 contract defines. Details are appended after ": ".
const (
	messageUnknown         = "requirements not yet checked"
	messageNotMet          = "one or more requirements couldn't be found"
	messageNoLongerMet     = "requirements no longer met"
	messageStillNotMet     = "requirements not met"
	messageMet             = "all requirements found, attempting install"
	messageWritten         = "waiting for install components to report healthy"
	messageSucceeded       = "install strategy completed with no errors"
	messageInstalling      = "installing: %s"
	messageStrategyFailed  = "install strategy failed: %v"
	messageInstallFailed   = "install failed: %s"
	messageTimeout         = "install timeout"
	messageReinstall       = "calculated deployment install is bad"
	messageInvalidStrategy = "install strategy invalid: %v"
	messageNoGroup         = "csv in namespace with no operatorgroups"
	messageTooManyGroups   = "csv created in namespace with multiple operatorgroups, can't pick one automatically"
	messageNoTargets       = "no targetNamespaces are matched operatorgroups namespace selection"
	messageModesNow        = "InstallModes now support target namespaces"
	messageGroupConflict   = "intersecting operatorgroups provide the same apis"
	messageStaticAPIs      = "static provided api operatorgroup cannot be modified by these apis"
	messageNoIntersection  = "OperatorGroup no longer intersecting with conflicting owner"
	messageStaticSupports  = "static OperatorGroup and intersecting groups now support providedAPIs"
	messageClusterChange   = "Cluster resources changed state"
	messageKindConflict    = "conflicting CRD owner in namespace"
	messageNoAdoption      = "unable to adopt APIService"
	messageCertRotation    = "CSV owns resources that require a cert refresh"
	messageNotUpgradeable  = "operator is not upgradeable: %s"
	messageBeingReplaced   = "being replaced by csv: %s"
	messageFailForward     = "Fail Forward is enabled, allowing Failed csv to be replaced by csv: %s"
	messageShrunk          = "permissions that exceed the account were removed, and are restored when the account has them: %v"
	messageReplaced        = "has been replaced by a newer ClusterServiceVersion that has successfully installed."
)
