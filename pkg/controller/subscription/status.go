package subscription

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/install"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/resolver"
)

// Reasons that the contract defines but for which the API module has no constants.
const (
	reasonNoCatalogs       = "NoCatalogSourcesFound"
	reasonCatalogsHealthy  = "AllCatalogSourcesHealthy"
	reasonCatalogUnhealthy = "UnhealthyCatalogSourceFound"
	reasonPlanFailed       = "InstallPlanFailed"
	reasonNotYetReconciled = "InstallPlanNotYetReconciled"
	reasonUnpackFailed     = "BundleUnpackFailed"
	reasonUnpacking        = "UnpackingInProgress"
	reasonEnsureFailed     = "EnsureInstallPlanFailed"
	reasonBeingDeleted     = "ClusterServiceVersionBeingDeleted"

	// reasonVersionFailed is a reason of the condition UpgradeHeldBack. The resolver defines its other reasons.
	reasonVersionFailed = "InstalledVersionFailed"

	typePermissionsMissing = operatorsv1alpha1.SubscriptionConditionType(names.ConditionPermissionsMissing)
	typeExceedsAccount     = operatorsv1alpha1.SubscriptionConditionType(names.ConditionExceedsAccount)
	typeUpgradeHeldBack    = operatorsv1alpha1.SubscriptionConditionType(names.ConditionUpgradeHeldBack)
	typeObjectsRefused     = operatorsv1alpha1.SubscriptionConditionType(names.ConditionObjectsRefused)
	typeAuthorUnchecked    = operatorsv1alpha1.SubscriptionConditionType(names.ConditionAuthorUnchecked)
	typeWebhooksIncluded   = operatorsv1alpha1.SubscriptionConditionType(names.ConditionWebhooksIncluded)
)

// write updates the Subscription's status from a view. Timestamps change only if other fields change.
func (r *Reconciler) write(sub *operatorsv1alpha1.Subscription, v view) {
	before := sub.Status.DeepCopy()
	st := &sub.Status
	writeInstall(st, v)
	writePlan(st, v)
	now := metav1.NewTime(r.Clock.Now())
	r.writeCatalog(st, v, now)
	r.writeConditions(st, v, now)
	if !equality.Semantic.DeepEqual(before, st) {
		st.LastUpdated = now
	}
}

// unsettled returns the remaining delay before a status is written, or 0 if it is written now. A status is delayed only if it
// differs from the stored one in nothing but the progress of a new plan that the stored one refers to. If this program's clock
// differs from the API server's, the delay may be shorter.
func (r *Reconciler) unsettled(v view, before, after *operatorsv1alpha1.SubscriptionStatus) time.Duration {
	plan := v.plan
	if plan == nil || !progresses(plan) {
		return 0
	}
	const pending = operatorsv1alpha1.SubscriptionInstallPlanPending
	was, is := before.GetCondition(pending), after.GetCondition(pending)
	if was.Status != corev1.ConditionTrue || is.Status != corev1.ConditionTrue || was.Reason != reasonNotYetReconciled {
		return 0 // for example, the plan has been approved
	}
	settled := after.DeepCopy()
	settled.State, settled.InstalledCSV, settled.LastUpdated = before.State, before.InstalledCSV, before.LastUpdated
	settled.SetCondition(was)
	for _, t := range []operatorsv1alpha1.SubscriptionConditionType{typePermissionsMissing, typeObjectsRefused} {
		if before.GetCondition(t).Reason == "" && after.GetCondition(t).Status == corev1.ConditionFalse {
			settled.RemoveConditions(t)
		}
	}
	age := r.Clock.Since(plan.CreationTimestamp.Time)
	if v.installed != nil { // many plans may have been executed before this one
		age = min(age, r.Clock.Since(v.installed.CreationTimestamp.Time))
	}
	if age < 0 || !equality.Semantic.DeepEqual(before, settled) {
		return 0
	}
	return max(0, r.settling.Time(plan.Namespace)-age)
}

// progresses reports whether a plan in flight waits for nothing, not even for its approval.
func progresses(plan *operatorsv1alpha1.InstallPlan) bool {
	return inFlight(plan) && plan.Status.Phase != operatorsv1alpha1.InstallPlanPhaseRequiresApproval &&
		plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Status != corev1.ConditionFalse
}

func writeInstall(st *operatorsv1alpha1.SubscriptionStatus, v view) {
	switch {
	case v.resolved != "":
		st.CurrentCSV = v.resolved
	case v.installed == nil && (v.problem != nil || v.deleting == ""): // nothing is resolved, for example while an image is pulled
		st.CurrentCSV, st.State = "", operatorsv1alpha1.SubscriptionStateNone
	}
	if v.installed == nil {
		st.InstalledCSV = ""
		if v.plan != nil || v.deleting != "" {
			st.State = operatorsv1alpha1.SubscriptionStateUpgradePending
		}
		return
	}
	st.InstalledCSV = v.installed.Name // as in OLM, regardless of the CSV's phase
	st.State = upgradeState(v)
}

// upgradeState returns the state of a Subscription that has an installed version. The state is UpgradeFailed only if
// failed versions can be replaced (OLM v0 contract). As in OLM, it is AtLatestKnown as soon as the version exists; the
// version's own phase shows whether it runs.
func upgradeState(v view) operatorsv1alpha1.SubscriptionState {
	phase := v.installed.Status.Phase
	planFailed := v.plan != nil && v.plan.Status.Phase == operatorsv1alpha1.InstallPlanPhaseFailed && v.resolved != v.installed.Name
	switch {
	case v.forward && (phase == operatorsv1alpha1.CSVPhaseFailed || planFailed):
		return operatorsv1alpha1.SubscriptionStateFailed
	case v.resolved != v.installed.Name:
		return operatorsv1alpha1.SubscriptionStateUpgradePending
	case v.head == "" || v.head == v.installed.Name:
		return operatorsv1alpha1.SubscriptionStateAtLatest
	case phase != operatorsv1alpha1.CSVPhaseSucceeded && phase != operatorsv1alpha1.CSVPhaseFailed:
		return operatorsv1alpha1.SubscriptionStateUpgradePending // the upgrade begins when the version has succeeded
	}
	return operatorsv1alpha1.SubscriptionStateUpgradeAvailable
}

func writePlan(st *operatorsv1alpha1.SubscriptionStatus, v view) {
	if v.plan == nil {
		if v.installed == nil {
			st.InstallPlanRef, st.Install, st.InstallPlanGeneration = nil, nil, 0
		}
		return
	}
	st.InstallPlanRef = &corev1.ObjectReference{
		APIVersion: operatorsv1alpha1.InstallPlanAPIVersion,
		Kind:       operatorsv1alpha1.InstallPlanKind,
		Namespace:  v.plan.Namespace,
		Name:       v.plan.Name,
		UID:        v.plan.UID,
	}
	st.Install = operatorsv1alpha1.NewInstallPlanReference(st.InstallPlanRef)
	st.InstallPlanGeneration = v.plan.Spec.Generation
}

func (r *Reconciler) writeCatalog(st *operatorsv1alpha1.SubscriptionStatus, v view, now metav1.Time) {
	if v.catalog.source == nil {
		st.CatalogHealth = nil
		return
	}
	health := operatorsv1alpha1.SubscriptionCatalogHealth{
		CatalogSourceRef: &corev1.ObjectReference{
			APIVersion: operatorsv1alpha1.CatalogSourceCRDAPIVersion,
			Kind:       operatorsv1alpha1.CatalogSourceKind,
			Namespace:  v.catalog.key.Namespace,
			Name:       v.catalog.key.Name,
			UID:        v.catalog.source.UID,
		},
		Healthy:     v.catalog.healthy,
		LastUpdated: &now,
	}
	if len(st.CatalogHealth) == 1 && st.CatalogHealth[0].Equals(health) {
		return
	}
	st.CatalogHealth = []operatorsv1alpha1.SubscriptionCatalogHealth{health}
}

type reasoned struct {
	reason  string
	message message.Text
}

func (r *Reconciler) writeConditions(st *operatorsv1alpha1.SubscriptionStatus, v view, now metav1.Time) {
	put := func(t operatorsv1alpha1.SubscriptionConditionType, value corev1.ConditionStatus, reason string, text message.Text) {
		shown := status.Text(text)
		if got := st.GetCondition(t); got.Status != value || got.Reason != reason || got.Message != shown {
			st.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: t, Status: value, Reason: reason, Message: shown, LastTransitionTime: &now})
		}
	}
	// set sets a condition to True or, if why is nil, removes it.
	set := func(t operatorsv1alpha1.SubscriptionConditionType, why *reasoned) {
		if why == nil {
			st.RemoveConditions(t)
			return
		}
		put(t, corev1.ConditionTrue, why.reason, why.message)
	}
	const unhealthy = operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy
	if why := catalogProblem(v); why != nil {
		set(unhealthy, why)
	} else {
		put(unhealthy, corev1.ConditionFalse, reasonCatalogsHealthy, "all available catalogsources are healthy")
	}
	set(operatorsv1alpha1.SubscriptionResolutionFailed, asReason(v.problem))
	set(typeUpgradeHeldBack, asReason(heldBack(v)))
	for t, text := range v.deprecated.conditions() {
		set(t, reasonedIf(text != "", "", text))
	}
	set(operatorsv1alpha1.SubscriptionBundleUnpacking, reasonedIf(v.unpacking != "", reasonUnpacking, v.unpacking))
	set(operatorsv1alpha1.SubscriptionBundleUnpackFailed, v.unpackFailed)
	pending, failed := planConditions(v)
	set(operatorsv1alpha1.SubscriptionInstallPlanPending, pending)
	set(operatorsv1alpha1.SubscriptionInstallPlanFailed, failed)
	set(operatorsv1alpha1.SubscriptionInstallPlanMissing, missingPlan(v))
	for _, t := range []operatorsv1alpha1.SubscriptionConditionType{typePermissionsMissing, typeObjectsRefused, typeWebhooksIncluded} {
		if c, ok := found(v, t); ok {
			put(t, c.Status, string(c.Reason), message.Reread(c.Message))
		} else {
			set(t, reasonedIf(t == typePermissionsMissing && v.plan == nil && v.missing != "", names.ReasonAccountLacksPermissions, v.missing))
		}
	}
	if v.named != "" { // the last account remains recorded while there is none
		c := accountCondition(v.named, now)
		put(c.Type, c.Status, c.Reason, message.Reread(c.Message))
	}
	excess := exceeds(v)
	set(typeExceedsAccount, reasonedIf(excess != "", names.ReasonAccountLacksPermissions, excess))
}

// accountCondition returns the condition that records an account. The policy remit-csv-author-check reads the account from the message.
func accountCondition(account string, now metav1.Time) operatorsv1alpha1.SubscriptionCondition {
	return operatorsv1alpha1.SubscriptionCondition{Type: typeAuthorUnchecked, Status: corev1.ConditionFalse, Reason: "AccountKnown", LastTransitionTime: &now, Message: status.Text(message.Sprintf(
		"ServiceAccount %s installs what this Subscription selects: whoever changes the spec must be allowed to impersonate it", account))}
}

// recordedAccount returns the account that a status records, or "".
func recordedAccount(st *operatorsv1alpha1.SubscriptionStatus) string {
	_, rest, _ := strings.Cut(st.GetCondition(typeAuthorUnchecked).Message, " ")
	account, _, _ := strings.Cut(rest, " ")
	return account
}

// newWebhooks returns the condition that reports webhooks if it has become true or has another message, which is an event, too.
func newWebhooks(before, after *operatorsv1alpha1.SubscriptionStatus) (c operatorsv1alpha1.SubscriptionCondition, ok bool) {
	old, c := before.GetCondition(typeWebhooksIncluded), after.GetCondition(typeWebhooksIncluded)
	return c, c.Status == corev1.ConditionTrue && (old.Status != c.Status || old.Message != c.Message)
}

// newEscalation returns the warning about permissions with which an operator can obtain others, if the status did not contain the
// same warning before; or "". Users who watch only the Subscription would otherwise learn of it only from a condition that is False.
func newEscalation(before, after *operatorsv1alpha1.SubscriptionStatus) string {
	warning := preflight.EscalationIn(after.GetCondition(typePermissionsMissing).Message)
	if strings.Contains(before.GetCondition(typePermissionsMissing).Message, warning) {
		return ""
	}
	return warning
}

// newFailures returns the conditions that the contract reports in an event, if they became true or have another
// reason. The reason of the event is the type of the condition.
func newFailures(before, after *operatorsv1alpha1.SubscriptionStatus) (out []operatorsv1alpha1.SubscriptionCondition) {
	for _, t := range []operatorsv1alpha1.SubscriptionConditionType{
		operatorsv1alpha1.SubscriptionResolutionFailed, operatorsv1alpha1.SubscriptionBundleUnpackFailed,
	} {
		old, c := before.GetCondition(t), after.GetCondition(t)
		if c.Status == corev1.ConditionTrue && (old.Status != c.Status || old.Reason != c.Reason) {
			out = append(out, c)
		}
	}
	return out
}

func reasonedIf(applies bool, reason, text string) *reasoned {
	if !applies {
		return nil
	}
	return &reasoned{reason, message.Line(text)}
}

func asReason(p *resolver.Problem) *reasoned {
	if p == nil {
		return nil
	}
	return &reasoned{p.Reason, message.Line(p.Message)}
}

// heldBack returns the reason that an installed version is kept although its channel contains another version, or nil.
// A separate condition reports it, because the installed version itself has no problem.
func heldBack(v view) *resolver.Problem {
	if failed := v.installed != nil && v.installed.Status.Phase == operatorsv1alpha1.CSVPhaseFailed; failed && !v.forward &&
		v.resolved == v.installed.Name && v.head != "" && v.head != v.installed.Name {
		return &resolver.Problem{Reason: reasonVersionFailed, Message: fmt.Sprintf("%s cannot replace %s, which has failed: "+
			"fix the failed version, or set upgradeStrategy %s in the OperatorGroup", v.head, v.installed.Name, operatorsv1.UpgradeStrategyUnsafeFailForward)}
	}
	return v.heldBack
}

// exceeds returns a message about permissions of the CSV that the account no longer has, or "". A CSV that has never
// succeeded has no permissions yet, and its own status reports the permissions that its account is missing.
func exceeds(v view) string {
	if v.installed == nil || !hasSucceeded(v.installed) {
		return ""
	}
	excess := install.ExceedsAccount(v.installed, v.account.UID)
	if excess == "" {
		return ""
	}
	return fmt.Sprintf("ClusterServiceVersion %s exceeds the permissions of ServiceAccount %s: %s", v.installed.Name, v.account.Key(), excess)
}

func hasSucceeded(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded ||
		slices.ContainsFunc(csv.Status.Conditions, func(c operatorsv1alpha1.ClusterServiceVersionCondition) bool {
			return c.Phase == operatorsv1alpha1.CSVPhaseSucceeded
		})
}

// catalogProblem returns the reason that the Subscription's catalog cannot be used, or nil.
func catalogProblem(v view) *reasoned {
	switch {
	case v.catalog.none:
		return &reasoned{reasonNoCatalogs, "dependency resolution requires at least one catalogsource"}
	case v.catalog.source == nil:
		return &reasoned{reasonCatalogUnhealthy, message.Sprintf("targeted catalogsource %s missing", v.catalog.key)}
	case !v.catalog.healthy:
		return &reasoned{reasonCatalogUnhealthy, message.Sprintf("targeted catalogsource %s unhealthy", v.catalog.key)}
	}
	return nil
}

// planConditions returns the reasons and messages of the conditions InstallPlanPending and InstallPlanFailed, or nil
// for a condition that is absent. The reason of a pending plan is its phase.
func planConditions(v view) (pending, failed *reasoned) {
	if v.deleting != "" {
		return &reasoned{reasonBeingDeleted, message.Line(v.deleting)}, nil
	}
	if v.plan == nil {
		return nil, nil
	}
	installed := v.plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
	switch phase := v.plan.Status.Phase; phase {
	case operatorsv1alpha1.InstallPlanPhaseComplete:
		return nil, nil
	case operatorsv1alpha1.InstallPlanPhaseFailed:
		return nil, &reasoned{cmp.Or(string(installed.Reason), reasonPlanFailed), message.Lines(message.Reread(installed.Message), howToContinue(v))}
	case operatorsv1alpha1.InstallPlanPhaseNone:
		return &reasoned{reason: reasonNotYetReconciled}, nil
	default:
		text := message.Reread(installed.Message)
		if installed.Reason == names.ReasonBundleContentUnavailable {
			text = message.Lines(text, howToContinue(v))
		}
		return &reasoned{string(phase), text}, nil
	}
}

// found returns a condition that the plan's preflight has set, whose message contains the RBAC to apply. The
// Subscription repeats this condition because users check the Subscription first. ok is false if there is no plan or
// the preflight has not run yet.
func found(v view, t operatorsv1alpha1.SubscriptionConditionType) (c operatorsv1alpha1.InstallPlanCondition, ok bool) {
	if v.plan == nil {
		return c, false
	}
	c = v.plan.Status.GetCondition(operatorsv1alpha1.InstallPlanConditionType(t))
	return c, c.Reason != "" && c.Reason != names.ReasonNotTried
}
