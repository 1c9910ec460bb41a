package subscription

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

type (
	csvPhase  = operatorsv1alpha1.ClusterServiceVersionPhase
	planPhase = operatorsv1alpha1.InstallPlanPhase
)

// given returns a view with a healthy catalog to which the edits have been applied.
func given(edits ...func(*view)) view {
	v := view{catalog: catalogView{
		key: types.NamespacedName{Namespace: "ns", Name: "cat"}, source: &metav1.PartialObjectMetadata{}, healthy: true,
	}}
	for _, e := range edits {
		e(&v)
	}
	return v
}

func installed(name string, phase csvPhase) func(*view) {
	return func(v *view) {
		v.installed = &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.installed.Status.Phase = phase
		v.resolved = name
	}
}

func head(name string) func(*view) { return func(v *view) { v.head = name } }

// plan adds a plan that installs a CSV. The plan has the given phase and conditions.
func plan(csv string, phase planPhase, conditions ...operatorsv1alpha1.InstallPlanCondition) func(*view) {
	return func(v *view) {
		v.plan = &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "install-a", UID: "u"}}
		v.plan.Spec.Generation = 3
		v.plan.Status.Phase, v.plan.Status.Conditions = phase, conditions
		v.resolved = csv
	}
}

func because(reason, message string) operatorsv1alpha1.InstallPlanCondition {
	return operatorsv1alpha1.InstallPlanCondition{
		Type: operatorsv1alpha1.InstallPlanInstalled, Status: corev1.ConditionFalse,
		Reason: operatorsv1alpha1.InstallPlanConditionReason(reason), Message: message,
	}
}

func permissionsMissing(status corev1.ConditionStatus, message string) operatorsv1alpha1.InstallPlanCondition {
	return operatorsv1alpha1.InstallPlanCondition{
		Type: names.ConditionPermissionsMissing, Status: status, Reason: names.ReasonAccountLacksPermissions, Message: message,
	}
}

func problem(v *view) {
	v.problem = &resolver.Problem{Reason: resolver.ConstraintsNotSatisfiable, Message: "no such package"}
}

func TestWriteInstall(t *testing.T) {
	const (
		succeeded   = operatorsv1alpha1.CSVPhaseSucceeded
		installing  = operatorsv1alpha1.CSVPhaseInstalling
		failed      = operatorsv1alpha1.CSVPhaseFailed
		none        = operatorsv1alpha1.SubscriptionStateNone
		pending     = operatorsv1alpha1.SubscriptionStateUpgradePending
		latest      = operatorsv1alpha1.SubscriptionStateAtLatest
		available   = operatorsv1alpha1.SubscriptionStateUpgradeAvailable
		replaceable = operatorsv1alpha1.SubscriptionState("UpgradeFailed")
	)
	for _, row := range []struct {
		name string
		// before is the installedCSV in the status that is updated.
		before             string
		view               view
		current, installed string
		state              operatorsv1alpha1.SubscriptionState
	}{
		{"nothing known", "", given(), "", "", none},
		{"a problem", "", given(problem), "", "", none},
		{"a plan in flight", "", given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseInstalling)), "op.v1", "", pending},
		{"a CSV that is being installed", "", given(installed("op.v1", installing), head("op.v1")), "op.v1", "op.v1", latest},
		{"a CSV that was just created", "", given(installed("op.v1", operatorsv1alpha1.CSVPhaseNone), head("op.v1")), "op.v1", "op.v1", latest},
		{"a CSV that has failed", "", given(installed("op.v1", failed), head("op.v1")), "op.v1", "op.v1", latest},
		{"a CSV that has failed and can be replaced", "", given(installed("op.v1", failed), head("op.v1"), func(v *view) { v.forward = true }), "op.v1", "op.v1", replaceable},
		{"a CSV that is being installed, behind the head", "", given(installed("op.v1", installing), head("op.v2")), "op.v1", "op.v1", pending},
		{"a CSV at the head", "", given(installed("op.v1", succeeded), head("op.v1")), "op.v1", "op.v1", latest},
		{"a CSV of an unknown channel", "", given(installed("op.v1", succeeded)), "op.v1", "op.v1", latest},
		{"a CSV behind the head", "", given(installed("op.v1", succeeded), head("op.v2")), "op.v1", "op.v1", available},
		{"a CSV that fails later remains the installed one", "op.v1", given(installed("op.v1", failed), head("op.v1")), "op.v1", "op.v1", latest},
		{"the successor of a CSV, while it is being installed", "op.v1", given(installed("op.v2", installing), head("op.v2")), "op.v2", "op.v2", latest},
		{"the successor of a CSV, before it exists", "op.v1", given(installed("op.v1", succeeded), head("op.v2"), plan("op.v2", operatorsv1alpha1.InstallPlanPhaseInstalling)), "op.v2", "op.v1", pending},
		{"a CSV that was deleted, and a problem", "op.v1", given(problem), "", "", none},
		{"a CSV that was deleted, and its new plan", "op.v1", given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseNone)), "op.v1", "", pending},
		{"a CSV that was deleted, and a plan that cannot be created", "op.v1", given(func(v *view) { v.unpackFailed = &reasoned{reasonEnsureFailed, "quota"} }), "", "", none},
		{"a CSV that was deleted, and an image that is being pulled", "op.v1", given(func(v *view) { v.unpacking = "pulling" }), "", "", none},
		{"a CSV that is being deleted", "op.v1", given(func(v *view) { v.deleting = "op.v1" }), "op.v1", "", pending},
		{"a problem does not affect an installed CSV", "op.v1", given(installed("op.v1", succeeded), problem), "op.v1", "op.v1", latest},
	} {
		t.Run(row.name, func(t *testing.T) {
			st := &operatorsv1alpha1.SubscriptionStatus{CurrentCSV: row.before, InstalledCSV: row.before}
			if row.before != "" {
				st.State = latest
			}
			writeInstall(st, row.view)
			require.Equal(t, row.current, st.CurrentCSV)
			require.Equal(t, row.installed, st.InstalledCSV)
			require.Equal(t, row.state, st.State)
		})
	}
}

func TestPlanConditions(t *testing.T) {
	for _, row := range []struct {
		name            string
		view            view
		pending, failed *reasoned
	}{
		{"no plan", given(), nil, nil},
		{"a new plan", given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseNone)), &reasoned{"InstallPlanNotYetReconciled", ""}, nil},
		{"a plan that waits for approval", given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseRequiresApproval)), &reasoned{"RequiresApproval", ""}, nil},
		{"a plan that waits for permissions", given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseInstalling, because("X", "missing"))), &reasoned{"Installing", "missing"}, nil},
		{"a plan that failed", given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseFailed, because("InstallComponentFailed", "bad"))), nil, &reasoned{"InstallComponentFailed", "bad"}},
		{"a plan that failed without a reason", given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseFailed)), nil, &reasoned{"InstallPlanFailed", ""}},
		{"a complete plan", given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseComplete)), nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			pending, failed := planConditions(row.view)
			require.Equal(t, row.pending, pending)
			require.Equal(t, row.failed, failed)
		})
	}
}

// conditions returns the conditions in the form "<type>=<status> <reason>: <message>", in the order of the status.
func conditions(st operatorsv1alpha1.SubscriptionStatus) []string {
	var out []string
	for _, c := range st.Conditions {
		out = append(out, string(c.Type)+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return out
}

func TestConditions(t *testing.T) {
	const healthy = "CatalogSourcesUnhealthy=False AllCatalogSourcesHealthy: all available catalogsources are healthy"
	inFlight := operatorsv1alpha1.InstallPlanPhaseInstalling
	for _, row := range []struct {
		name string
		view view
		want []string
	}{
		{"no problem", given(), []string{healthy}},
		{"no catalog", given(func(v *view) { v.catalog.source = nil }), []string{"CatalogSourcesUnhealthy=True UnhealthyCatalogSourceFound: targeted catalogsource ns/cat missing"}},
		{"no visible catalog", given(func(v *view) { v.catalog.source, v.catalog.none = nil, true }),
			[]string{"CatalogSourcesUnhealthy=True NoCatalogSourcesFound: dependency resolution requires at least one catalogsource"}},
		{"an upgrade that is held back", given(installed("op.v1", operatorsv1alpha1.CSVPhaseSucceeded), head("op.v2"), func(v *view) {
			v.heldBack = &resolver.Problem{Reason: resolver.UpgradeClashes, Message: "why"}
		}), []string{healthy, "UpgradeHeldBack=True UpgradeClashes: why"}},
		{"a failed version holds back the upgrade", given(installed("op.v1", operatorsv1alpha1.CSVPhaseFailed), head("op.v2")),
			[]string{healthy, "UpgradeHeldBack=True InstalledVersionFailed: op.v2 cannot replace op.v1, which has failed: fix the failed version, or set upgradeStrategy TechPreviewUnsafeFailForward in the OperatorGroup"}},
		{"a failed version that can be replaced", given(installed("op.v1", operatorsv1alpha1.CSVPhaseFailed), head("op.v2"), func(v *view) { v.forward = true }), []string{healthy}},
		{"a failed version at the head", given(installed("op.v1", operatorsv1alpha1.CSVPhaseFailed), head("op.v1")), []string{healthy}},
		{"unavailable content", given(func(v *view) { v.unpackFailed = &reasoned{"BundleUnpackFailed", "404"} }), []string{healthy, "BundleUnpackFailed=True BundleUnpackFailed: 404"}},
		{"an unhealthy catalog", given(func(v *view) { v.catalog.healthy = false }), []string{"CatalogSourcesUnhealthy=True UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy"}},
		{"a problem", given(problem), []string{healthy, "ResolutionFailed=True ConstraintsNotSatisfiable: no such package"}},
		{"a plan with missing permissions", given(plan("op.v1", inFlight, because("X", "missing"), permissionsMissing(corev1.ConditionTrue, "grant it"))),
			[]string{healthy, "InstallPlanPending=True Installing: missing", "PermissionsMissing=True AccountLacksPermissions: grant it"}},
		{"a plan that received its permissions", given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseComplete, permissionsMissing(corev1.ConditionFalse, ""))),
			[]string{healthy, "PermissionsMissing=False AccountLacksPermissions: "}},
		{"text with control characters", given(func(v *view) { v.problem = &resolver.Problem{Reason: "R", Message: "a\x1bb"} }), []string{healthy, "ResolutionFailed=True R: a\uFFFDb"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := &Reconciler{Options: Options{Clock: testclock.NewFakePassiveClock(time.Now())}}
			sub := &operatorsv1alpha1.Subscription{}
			r.write(sub, row.view)
			require.Equal(t, row.want, conditions(sub.Status))
		})
	}
}

func TestRemovesOutdatedConditions(t *testing.T) {
	r := &Reconciler{Options: Options{Clock: testclock.NewFakePassiveClock(time.Now())}}
	sub := &operatorsv1alpha1.Subscription{}
	r.write(sub, given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseInstalling, permissionsMissing(corev1.ConditionTrue, "grant it"))))
	require.Len(t, sub.Status.Conditions, 3)
	require.Equal(t, "install-a", sub.Status.InstallPlanRef.Name)

	r.write(sub, given(problem))
	require.Len(t, sub.Status.Conditions, 2, "the conditions of a deleted plan are removed: %v", conditions(sub.Status))
	require.Nil(t, sub.Status.InstallPlanRef)
	require.Nil(t, sub.Status.Install)
	require.Zero(t, sub.Status.InstallPlanGeneration)

	r.write(sub, given(plan("op.v2", operatorsv1alpha1.InstallPlanPhaseNone)))
	require.Len(t, sub.Status.Conditions, 2, "%v", conditions(sub.Status))
	require.Equal(t, 3, sub.Status.InstallPlanGeneration)
	require.Equal(t, types.UID("u"), sub.Status.InstallPlanRef.UID)
}

func TestTimestampsChangeOnlyWithOtherFields(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	r := &Reconciler{Options: Options{Clock: clock}}
	sub := &operatorsv1alpha1.Subscription{}
	v := given(plan("op.v1", operatorsv1alpha1.InstallPlanPhaseInstalling, because("X", "missing"), permissionsMissing(corev1.ConditionTrue, "grant it")))
	r.write(sub, v)
	first := sub.Status.DeepCopy()
	require.Equal(t, clock.Now(), first.LastUpdated.Time)

	clock.SetTime(clock.Now().Add(time.Hour))
	r.write(sub, v)
	require.Equal(t, *first, sub.Status)

	v.catalog.healthy = false
	r.write(sub, v)
	require.Equal(t, clock.Now(), sub.Status.LastUpdated.Time)
	require.Equal(t, clock.Now(), sub.Status.CatalogHealth[0].LastUpdated.Time)
	require.Equal(t, first.GetCondition(operatorsv1alpha1.SubscriptionInstallPlanPending), sub.Status.GetCondition(operatorsv1alpha1.SubscriptionInstallPlanPending))
}

func TestReportsFailuresInEventsOnce(t *testing.T) {
	status := func(conditions ...operatorsv1alpha1.SubscriptionCondition) *operatorsv1alpha1.SubscriptionStatus {
		return &operatorsv1alpha1.SubscriptionStatus{Conditions: conditions}
	}
	condition := func(kind operatorsv1alpha1.SubscriptionConditionType, reason, message string) operatorsv1alpha1.SubscriptionCondition {
		return operatorsv1alpha1.SubscriptionCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	}
	unresolved := condition("ResolutionFailed", "ConstraintsNotSatisfiable", "a")
	unpacked := condition("BundleUnpackFailed", "BundleUnpackFailed", "b")
	pending := condition("InstallPlanPending", "Installing", "c")
	require.Equal(t, []operatorsv1alpha1.SubscriptionCondition{unresolved, unpacked}, newFailures(status(), status(unresolved, unpacked, pending)))
	require.Empty(t, newFailures(status(unresolved), status(condition("ResolutionFailed", "ConstraintsNotSatisfiable", "again"))))
	again := condition("ResolutionFailed", "ErrorPreventedResolution", "a")
	require.Equal(t, []operatorsv1alpha1.SubscriptionCondition{again}, newFailures(status(unresolved), status(again)))
	require.Empty(t, newFailures(status(unresolved), status()))
}

// The policy remit-csv-author-check reads the account from the message, and the condition protects the Subscription while there is no
// account.
func TestRecordsTheAccountOfASubscription(t *testing.T) {
	r := &Reconciler{Options: Options{Clock: testclock.NewFakePassiveClock(time.Now())}}
	sub := &operatorsv1alpha1.Subscription{}
	r.write(sub, given(func(v *view) { v.named = "demo/installer" }))
	for range 2 {
		c := sub.Status.GetCondition(typeAuthorUnchecked)
		require.Equal(t, corev1.ConditionFalse, c.Status)
		require.Regexp(t, "^ServiceAccount demo/installer ", c.Message)
		r.write(sub, given(problem))
	}
	r.write(sub, given(func(v *view) { v.named = "demo/another" }))
	require.Regexp(t, "^ServiceAccount demo/another ", sub.Status.GetCondition(typeAuthorUnchecked).Message)
}
