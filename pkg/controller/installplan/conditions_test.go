package installplan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step"
)

type stepStatus = operatorsv1alpha1.StepStatus

const (
	unknown    = operatorsv1alpha1.StepStatusUnknown
	present    = operatorsv1alpha1.StepStatusPresent
	created    = operatorsv1alpha1.StepStatusCreated
	notCreated = operatorsv1alpha1.StepStatusNotCreated
)

// newRun returns a run of a plan in the given phase, for the bundles "a.v1" and "b.v1".
func newRun(phase operatorsv1alpha1.InstallPlanPhase) (*run, *events.FakeRecorder, *testclock.FakePassiveClock) {
	recorder := events.NewFakeRecorder(10)
	clock := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := &run{
		reconciler: &Reconciler{Options: Options{Clock: clock, Recorder: recorder}},
		plan:       &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "install-a"}},
		content: resolver.Plan{Namespace: "ns", Pins: []resolver.Pin{
			{Bundle: "a.v1", Catalog: "cat-a", CatalogNamespace: "ns"}, {Bundle: "b.v1", Catalog: "cat-b", CatalogNamespace: "global"},
		}},
	}
	s.plan.Status.Phase = phase
	return s, recorder, clock
}

func TestReport(t *testing.T) {
	const (
		installing = operatorsv1alpha1.InstallPlanPhaseInstalling
		failed     = operatorsv1alpha1.InstallPlanPhaseFailed
		approval   = operatorsv1alpha1.InstallPlanPhaseRequiresApproval
	)
	configMaps := schema.GroupResource{Resource: "configmaps"}
	conflict := apierrors.NewConflict(configMaps, "x", errors.New("edited"))
	collision := &apply.CollisionError{Object: "ConfigMap ns/x", Why: "it is theirs", Remedy: "delete it"}
	fatal := &invalid{operatorsv1alpha1.InstallPlanReasonPlanUnknown, errors.New("bad\x00plan")}
	for _, row := range []struct {
		name            string
		phase           operatorsv1alpha1.InstallPlanPhase
		out             outcome
		err             error
		want            operatorsv1alpha1.InstallPlanPhase
		reason, message string
		retried, event  bool
	}{
		{"waits for something", installing, wait("Why", "what for"), nil, installing, "Why", "what for", false, false},
		{"waits for approval", approval, stop(), nil, approval, "", `InstallPlan ns/install-a is waiting for approval.
To see what it writes: kubectl remit plan show install-a -n ns
To approve it: kubectl patch installplan install-a -n ns --type merge --patch '{"spec":{"approved":true}}'`, false, false},
		{"is done for now", installing, stop(), nil, installing, "", "", false, false},
		{"fails and is retried", installing, proceed(), errors.New("no route"), installing, "InstallComponentFailed", "retrying execution due to error: no route", true, false},
		{"collides with an object", installing, proceed(), collision, installing, "InstallComponentFailed",
			"retrying execution due to error: ConfigMap ns/x already exists and was not created by this install: it is theirs; it was not changed: delete it", true, false},
		{"meets a concurrent write, which is not reported", installing, proceed(), conflict, installing, "", "", true, false},
		{"cannot be fixed", installing, proceed(), fmt.Errorf("decode: %w", fatal), failed, "PlanUnknown", "bad\uFFFDplan", false, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, recorder, _ := newRun(row.phase)
			err := s.report(row.out, row.err)
			require.Equal(t, row.retried, err != nil)
			require.Equal(t, row.want, s.plan.Status.Phase)
			require.Equal(t, row.message, s.plan.Status.Message)
			require.Equal(t, row.event, len(recorder.Events) == 1)
			if row.reason == "" {
				require.Empty(t, s.plan.Status.Conditions)
				return
			}
			c := s.plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
			require.Equal(t, corev1.ConditionFalse, c.Status)
			require.Equal(t, row.reason, string(c.Reason))
			require.Equal(t, row.message, c.Message)
		})
	}
}

// The permissions for objects that cannot be installed yet do not have to be granted now, but users who approve a plan
// have to know about them.
func TestListsMissingPermissionsForApprovalWhileAKindIsUnserved(t *testing.T) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}}
	for phase, want := range map[operatorsv1alpha1.InstallPlanPhase]string{
		operatorsv1alpha1.InstallPlanPhaseInstalling: "",
		operatorsv1alpha1.InstallPlanPhaseRequiresApproval: `The cluster does not serve all kinds in the plan. Once it does, ServiceAccount ns/acct will be missing 1 permission, which need not be granted before then.
- User "system:serviceaccount:ns:acct" cannot get resource "pods" in API group "" in the namespace "ns", nor list it
a.v2 requests more permissions than a.v1:
+ {apiGroups: [""], resources: ["pods"], verbs: ["get", "list"]} in namespace "ns"`,
	} {
		s, _, _ := newRun(phase)
		s.findings = preflight.Report{
			Identity: scoped.Account{Namespace: "ns", Name: "acct"}.Identity(),
			Findings: []preflight.Finding{{Namespace: "ns", Missing: rules, Cause: "why"}},
			Refused:  []preflight.Refusal{{Object: "ServiceMonitor ns/m", Message: "not served", Unserved: true}},
			Changes:  []preflight.Change{{From: "a.v1", To: "a.v2", Namespace: "ns", Added: rules}},
		}
		s.unserved = s.findings.DeferUntilServed()
		s.setFindings()
		c := s.plan.Status.GetCondition(typePermissionsMissing)
		require.Equal(t, corev1.ConditionUnknown, c.Status)
		require.Equal(t, names.ReasonNotTried, string(c.Reason))
		require.Equal(t, want, c.Message)
		files, err := s.findings.Files()
		require.NoError(t, err)
		require.NotContains(t, files[preflight.FileGrant], "kind: Role")
		require.Contains(t, files[preflight.FileReport], "later:\n- namespace: ns\n")
		require.Contains(t, files[preflight.FileReport], "changes:\n")
	}
}

func TestReportsAnUnsupportedKindAsInTheContract(t *testing.T) {
	unsupported := &bundle.UnsupportedKindError{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: "p"}
	require.ErrorContains(t, describeInvalid(fmt.Errorf("bundle: %w", unsupported)), "the InstallPlan contains invalid data: bundle: manifest /v1, Kind=Pod")
	require.EqualError(t, describeInvalid(errors.New("x")), "x")
}

func TestSetStepKeepsCreated(t *testing.T) {
	for _, row := range []struct{ before, set, want stepStatus }{
		{unknown, present, present}, {unknown, created, created}, {present, created, created},
		{created, present, created}, {created, notCreated, notCreated}, {created, unknown, unknown},
	} {
		s, _, _ := newRun("")
		s.plan.Status.Plan = []*operatorsv1alpha1.Step{{Status: row.before}}
		s.setStep(0, row.set)
		require.Equal(t, row.want, s.plan.Status.Plan[0].Status, "%s, then %s", row.before, row.set)
	}
}

// object returns a step that writes an object from a bundle.
func object(csv, kind, name, data string) step.Step {
	obj := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"d": data}}}
	obj.SetAPIVersion("v1")
	obj.SetKind(kind)
	obj.SetName(name)
	return step.Step{Object: obj, Owner: ownerutil.Owner{CSV: csv}}
}

func TestShow(t *testing.T) {
	s, _, _ := newRun("")
	require.NoError(t, s.show([]step.Step{object("a.v1", "Secret", "x", ""), object("b.v1", "ConfigMap", "x", "")}))
	first, second := s.plan.Status.Plan[0], s.plan.Status.Plan[1]
	require.Equal(t, "a.v1", first.Resolving)
	require.Equal(t, unknown, first.Status)
	require.Equal(t, "BundleSecret", first.Resource.Kind)
	require.Equal(t, "v1", first.Resource.Version)
	require.Equal(t, "cat-a", first.Resource.CatalogSource)
	require.Equal(t, "cat-b", second.Resource.CatalogSource)
	require.Equal(t, "global", second.Resource.CatalogSourceNamespace)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"d":""}}`, second.Resource.Manifest)

	s.setStep(0, created)
	s.setStep(1, present)
	require.NoError(t, s.show([]step.Step{object("b.v1", "ConfigMap", "y", ""), object("a.v1", "Secret", "x", "changed"), object("b.v1", "ConfigMap", "x", "")}))
	var states []stepStatus
	for _, st := range s.plan.Status.Plan {
		states = append(states, st.Status)
	}
	require.Equal(t, []stepStatus{unknown, created, present}, states, "steps are matched by identity, not by position")
}

func TestShowReferencesLargeManifests(t *testing.T) {
	s, _, _ := newRun("")
	large := strings.Repeat("x", maxShownManifests/2)
	require.NoError(t, s.show([]step.Step{object("a.v1", "ConfigMap", "x", large), object("b.v1", "ConfigMap", "y", large)}))
	for i, st := range s.plan.Status.Plan {
		require.Less(t, len(st.Resource.Manifest), 500)
		require.Contains(t, st.Resource.Manifest, s.content.Pins[i].Bundle)
		require.Contains(t, st.Resource.Manifest, s.content.Pins[i].Catalog)
		require.Contains(t, st.Resource.Manifest, `"show":"kubectl remit plan show `+s.plan.Name+" -n "+s.plan.Namespace+`"`)
	}
}

func TestTheTimesOfAConditionChangeOnlyWithIt(t *testing.T) {
	s, _, clock := newRun("")
	start := metav1.NewTime(clock.Now())
	get := func() operatorsv1alpha1.InstallPlanCondition {
		return s.plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
	}
	s.setInstalled(corev1.ConditionFalse, "A", "a")
	clock.SetTime(clock.Now().Add(time.Hour))
	s.setInstalled(corev1.ConditionFalse, "A", "a")
	require.Equal(t, start, *get().LastUpdateTime)

	s.setInstalled(corev1.ConditionFalse, "B", "b")
	require.Equal(t, clock.Now(), get().LastUpdateTime.Time)
	require.Equal(t, start, *get().LastTransitionTime)

	s.setInstalled(corev1.ConditionTrue, "", "")
	require.Equal(t, clock.Now(), get().LastTransitionTime.Time)
	require.Len(t, s.plan.Status.Conditions, 1)
}

func TestACompletePlanHasNoMessage(t *testing.T) {
	s, recorder, _ := newRun(operatorsv1alpha1.InstallPlanPhaseInstalling)
	s.plan.Status.Message = "retrying"
	s.setComplete("")
	require.Equal(t, operatorsv1alpha1.InstallPlanPhaseComplete, s.plan.Status.Phase)
	require.Empty(t, s.plan.Status.Message)
	require.Equal(t, corev1.ConditionTrue, s.plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Status)
	require.Empty(t, recorder.Events, "the ClusterServiceVersion has the event")
}
