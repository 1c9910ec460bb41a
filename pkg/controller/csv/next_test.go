package csv

import (
	"errors"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/proofs"
	"github.com/remit-olm/remit/test/env/recorded"
)

var start = metav1.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// given returns the facts of a CSV that entered a phase at start. The field Now is shortly after start.
func given(phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason, edit ...func(*Facts)) Facts {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Name, csv.Namespace = "demo.v1.0.0", "t1"
	if phase != phaseNone {
		csv.SetPhase(phase, reason, "before", &start)
	}
	f := Facts{CSV: csv, Now: start.Add(100 * time.Millisecond), Evaluated: true}
	for _, e := range edit {
		e(&f)
	}
	return f
}

func deployments(state deployment.State) func(*Facts) {
	return func(f *Facts) { f.Deployments, f.Due = state, !state.Installed }
}

func after(d time.Duration) func(*Facts) { return func(f *Facts) { f.Now = start.Add(d) } }

var (
	ready     = deployment.State{Installed: true, Ready: true}
	missing   = deployment.State{Problem: "missing deployment with name=d"}
	waitingD  = deployment.State{Installed: true, Problem: `waiting for deployment d to become ready: deployment "d" not available: x`}
	stuck     = deployment.State{Installed: true, Stuck: true, Problem: `waiting for deployment d to become ready: deployment "d" exceeded its progress deadline`}
	forbidden = apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "d", errors.New("no"))
	invalid   = apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "d", field.ErrorList{field.Required(field.NewPath("spec"), "")})
	lacking   = apierrors.NewForbidden(schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"}, "d", errors.New(`User "acct" cannot create resource "roles"`))
	policy    = recorded.ByAPolicy("deployments", "d")
	hook      = recorded.ByAWebhook()
	noDryRun  = apierrors.NewBadRequest("admission webhook \"w.example.com\" does not support dry run")
	denied    = &MissingPermissionsError{Account: scoped.Account{Namespace: "t1", Name: "acct"}, Missing: []string{"in namespace t1 {…}"}}
	delayed   = &apply.DelayedError{Why: "later"}
)

func TestNextInEveryPhase(t *testing.T) {
	unmet := func(f *Facts) { f.Unmet = true }
	settling := func(f *Facts) { f.Unsynced = true }
	noted := func(f *Facts) { f.Notes = []string{"ExceedsAccount: x"} }
	noAccount := func(f *Facts) { f.Account = &scoped.Error{Reason: scoped.NoAccount, Message: "names none"} }
	for _, tc := range []struct {
		name  string
		facts Facts
		want  Transition
	}{
		{"new", given(phaseNone, ""), to(phasePending, reasonRequirementsUnknown, "requirements not yet checked")},
		{"replaced", given(phaseSucceeded, reasonInstallSuccessful, func(f *Facts) { f.ReplacedBy = "demo.v2" }),
			to(phaseReplacing, reasonBeingReplaced, "being replaced by csv: demo.v2")},
		{"replaced although it had failed", given(phaseFailed, reasonComponentFailed, func(f *Facts) { f.ReplacedBy, f.Forward = "demo.v2", true }),
			to(phaseReplacing, reasonBeingReplaced, "Fail Forward is enabled, allowing Failed csv to be replaced by csv: demo.v2")},
		{"replaced by a version that has succeeded", given(phaseReplacing, reasonBeingReplaced, func(f *Facts) { f.ReplacedBy, f.Replaced = "demo.v2", true }),
			to(phaseDeleting, reasonReplaced, "has been replaced by a newer ClusterServiceVersion that has successfully installed.")},
		{"deleted", given(phaseDeleting, reasonReplaced, func(f *Facts) { f.ReplacedBy, f.Replaced = "demo.v2", true }),
			Transition{Phase: phaseDeleting, Reason: reasonReplaced, Message: "before", Remove: true}},
		{"deleted after the older one", given(phaseDeleting, reasonReplaced, func(f *Facts) { f.ReplacedBy, f.Replaced, f.Older = "demo.v2", true, "demo.v0" }),
			to(phaseDeleting, reasonReplaced, "before")},
		{"the replacing version was deleted", given(phaseDeleting, reasonReplaced), to(phasePending, reasonRequirementsUnknown, "requirements not yet checked")},
		{"certificates are rotated", given(phaseSucceeded, reasonInstallSuccessful, deployments(ready), func(f *Facts) { f.Rolling = true }),
			to(phasePending, reasonNeedsCertRotation, "CSV owns resources that require a cert refresh")},
		{"no group", given(phaseSucceeded, reasonInstallSuccessful, func(f *Facts) { f.Group = &Problem{reasonNoOperatorGroup, messageNoGroup} }),
			to(phaseFailed, reasonNoOperatorGroup, "csv in namespace with no operatorgroups")},
		{"bad strategy", given(phasePending, "", func(f *Facts) { f.Strategy = errors.New("a\nb") }),
			to(phaseFailed, reasonInvalidStrategy, "install strategy invalid: a; b")},
		{"no account", given(phaseInstalling, "", noAccount), to(phasePending, "NoAccount", "names none")},
		{"no account after the install", given(phaseSucceeded, reasonInstallSuccessful, noAccount, noted, deployments(ready)),
			to(phaseSucceeded, reasonInstallSuccessful, "install strategy completed with no errors; ExceedsAccount: x")},

		{"requirements missing", given(phasePending, "", unmet), to(phasePending, reasonRequirementsNotMet, "one or more requirements couldn't be found")},
		{"account is missing permissions", given(phasePending, "", func(f *Facts) { f.Excess = denied }, unmet),
			to(phasePending, reasonRequirementsNotMet, "one or more requirements couldn't be found: ServiceAccount t1/acct is missing permissions: in namespace t1 {…}")},
		{"just written", given(phasePending, reasonRequirementsUnknown, settling), to(phasePending, reasonRequirementsUnknown, "before")},
		{"roles not allowed", given(phasePending, "", func(f *Facts) { f.Prepared = denied }),
			to(phasePending, reasonRequirementsNotMet, "one or more requirements couldn't be found: ServiceAccount t1/acct is missing permissions: in namespace t1 {…}")},
		{"roles refused by a policy", given(phasePending, "", func(f *Facts) { f.Prepared = forbidden }, after(10*time.Second)),
			Transition{Phase: phasePending, Reason: reasonRequirementsNotMet, After: 10 * time.Second,
				Message: `one or more requirements couldn't be found: deployments.apps "d" is forbidden: no`}},
		{"roles refused by a policy without a reason", given(phasePending, "", func(f *Facts) { f.Prepared = policy }, after(10*time.Second)),
			Transition{Phase: phasePending, Reason: reasonRequirementsNotMet, After: 10 * time.Second, Message: "one or more requirements couldn't be found: " + policy.Error()}},
		{"a role refused by a webhook after the install", given(phaseSucceeded, reasonInstallSuccessful, deployments(ready), func(f *Facts) { f.Prepared = hook }, after(time.Hour)),
			Transition{Phase: phaseSucceeded, Reason: reasonInstallSuccessful, After: 5 * time.Minute, Message: "install strategy completed with no errors"}},
		{"certificate rotation continues although a role could not be created", given(phasePending, reasonNeedsCertRotation, func(f *Facts) { f.Prepared, f.Rolling, f.Same = denied, true, true }),
			to(phaseInstallReady, reasonRequirementsMet, "all requirements found, attempting install")},
		{"certificate rotation continues although the account is missing permissions", given(phasePending, reasonNeedsCertRotation, func(f *Facts) { f.Excess, f.Unmet, f.Rolling, f.Same = denied, true, true, true }),
			to(phaseInstallReady, reasonRequirementsMet, "all requirements found, attempting install")},
		{"claims a certificate rotation, but the Deployments differ", given(phasePending, reasonNeedsCertRotation, func(f *Facts) { f.Excess, f.Rolling = denied, true }),
			to(phasePending, reasonRequirementsNotMet, "one or more requirements couldn't be found: ServiceAccount t1/acct is missing permissions: in namespace t1 {…}")},
		{"waits for the older version", given(phasePending, reasonRequirementsUnknown, func(f *Facts) { f.Older, f.Waits = "demo.v0", "x" }), to(phasePending, reasonRequirementsUnknown, "requirements not yet checked: x")},
		{"waits from the start", given(phaseNone, "", func(f *Facts) { f.Waits = "x" }), to(phasePending, reasonRequirementsUnknown, "requirements not yet checked: x")},
		{"the older version is being replaced", given(phasePending, "", func(f *Facts) { f.Older = "demo.v0" }),
			to(phaseInstallReady, reasonRequirementsMet, "all requirements found, attempting install")},
		{"all requirements met", given(phasePending, ""), to(phaseInstallReady, reasonRequirementsMet, "all requirements found, attempting install")},

		{"install", given(phaseInstallReady, ""), Transition{Phase: phaseInstalling, Reason: reasonInstallSuccessful, Install: true,
			Message: "waiting for install components to report healthy"}},
		{"install not allowed", given(phaseInstallReady, "", func(f *Facts) { f.Refused = denied }),
			to(phaseFailed, reasonNoRetry, "install strategy failed: ServiceAccount t1/acct is missing permissions: in namespace t1 {…}")},

		{"claims to be ready for the install, but is not", given(phaseInstallReady, "", func(f *Facts) { f.Prepared = denied }),
			to(phasePending, reasonRequirementsNotMet, "one or more requirements couldn't be found: ServiceAccount t1/acct is missing permissions: in namespace t1 {…}")},
		{"claims to be installing, but is not allowed to", given(phaseInstalling, "", deployments(missing), func(f *Facts) { f.Excess = denied }),
			to(phasePending, reasonRequirementsNotMet, "one or more requirements couldn't be found: ServiceAccount t1/acct is missing permissions: in namespace t1 {…}")},
		{"claims to be installing, but was not evaluated", given(phaseInstalling, "", deployments(missing), func(f *Facts) { f.Evaluated = false }),
			to(phaseInstalling, "", "before")},

		{"waits", given(phaseInstalling, "", deployments(waitingD), after(time.Minute)), Transition{Phase: phaseInstalling, Reason: reasonWaiting,
			After: 4 * time.Minute, Message: `installing: waiting for deployment d to become ready: deployment "d" not available: x`}},
		{"not in the cache yet", given(phaseInstalling, "", deployments(missing), after(time.Minute)), Transition{Phase: phaseInstalling,
			Reason: reasonWaiting, Install: true, After: 4 * time.Minute, Message: "installing: missing deployment with name=d"}},
		{"timeout", given(phaseInstalling, "", deployments(waitingD), after(5*time.Minute)), to(phaseFailed, reasonInstallCheckFailed, "install timeout: "+waitingD.Problem)},
		{"stuck", given(phaseInstalling, "", deployments(stuck)), to(phaseFailed, reasonInstallCheckFailed,
			`install failed: waiting for deployment d to become ready: deployment "d" exceeded its progress deadline`)},
		{"ready", given(phaseInstalling, "", deployments(ready)), to(phaseSucceeded, reasonInstallSuccessful, "install strategy completed with no errors")},

		{"degraded", given(phaseSucceeded, "", deployments(missing)), to(phaseFailed, reasonComponentUnhealthy, "installing: missing deployment with name=d")},
		{"requirement no longer met", given(phaseSucceeded, "", deployments(ready), unmet), to(phaseFailed, reasonRequirementsNotMet, "requirements no longer met")},
		{"being repaired", given(phaseSucceeded, reasonInstallSuccessful, deployments(ready), unmet, settling), to(phaseSucceeded, reasonInstallSuccessful, "before")},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, Next(tc.facts)) })
	}
}

func TestNextOutOfFailed(t *testing.T) {
	probe := func(err error) func(*Facts) { return func(f *Facts) { f.Probe = err } }
	for _, tc := range []struct {
		name  string
		facts Facts
		want  Transition
	}{
		{"the group is suitable now", given(phaseFailed, reasonUnsupportedGroup), to(phasePending, reasonRequirementsUnknown, "InstallModes now support target namespaces")},
		{"no other group provides its APIs now", given(phaseFailed, reasonOwnerConflictGroups),
			to(phasePending, reasonRequirementsUnknown, "OperatorGroup no longer intersecting with conflicting owner")},
		{"the static group lists its APIs now", given(phaseFailed, reasonStaticAPIs),
			to(phasePending, reasonRequirementsUnknown, "static OperatorGroup and intersecting groups now support providedAPIs")},
		{"the group exists now", given(phaseFailed, reasonNoOperatorGroup), to(phasePending, reasonRequirementsUnknown, "requirements not yet checked")},
		{"the strategy is valid now", given(phaseFailed, reasonInvalidStrategy), to(phasePending, reasonRequirementsUnknown, "requirements not yet checked")},
		{"requirements are still not met", given(phaseFailed, reasonRequirementsNotMet, func(f *Facts) { f.Unmet = true }), to(phaseFailed, reasonRequirementsNotMet, "requirements not met")},
		{"requirements are not met while a role cannot be created", given(phaseFailed, reasonRequirementsNotMet, func(f *Facts) { f.Unmet, f.Prepared = true, denied }),
			to(phaseFailed, reasonRequirementsNotMet, "requirements not met: ServiceAccount t1/acct is missing permissions: in namespace t1 {…}")},
		{"requirements are not met while a quota refuses a role", given(phaseFailed, reasonRequirementsNotMet, func(f *Facts) { f.Unmet, f.Prepared = true, forbidden }, after(time.Minute)),
			Transition{Phase: phaseFailed, Reason: reasonRequirementsNotMet, Message: "requirements not met: " + forbidden.Error(), After: time.Minute}},
		{"requirements are not met while the account may not write a role", given(phaseFailed, reasonRequirementsNotMet, func(f *Facts) { f.Unmet, f.Prepared = true, lacking }, after(time.Minute)),
			Transition{Phase: phaseFailed, Reason: reasonRequirementsNotMet, Message: "requirements not met: " + lacking.Error(), After: time.Minute}},
		{"requirements are not met while a policy refuses a role", given(phaseFailed, reasonRequirementsNotMet, func(f *Facts) { f.Unmet, f.Prepared = true, policy }, after(time.Minute)),
			Transition{Phase: phaseFailed, Reason: reasonRequirementsNotMet, Message: "requirements not met: " + policy.Error(), After: time.Minute}},
		{"requirements are not met while a role is sealed", given(phaseFailed, reasonRequirementsNotMet, func(f *Facts) { f.Unmet, f.Prepared = true, delayed }, after(time.Second)),
			Transition{Phase: phaseFailed, Reason: reasonRequirementsNotMet, Message: "requirements not met: later", After: 10 * time.Second}},
		{"requirements are not met while a role has been sealed for a long time", given(phaseFailed, reasonRequirementsNotMet, func(f *Facts) { f.Unmet, f.Prepared = true, delayed }, after(time.Minute)),
			Transition{Phase: phaseFailed, Reason: reasonRequirementsNotMet, Message: "requirements not met: later", After: time.Minute}},
		{"requirements are met again", given(phaseFailed, reasonRequirementsNotMet), to(phasePending, reasonRequirementsUnknown, "requirements not yet checked")},
		{"still not allowed", given(phaseFailed, reasonNoRetry, func(f *Facts) { f.Refused = denied }),
			to(phaseFailed, reasonNoRetry, "install strategy failed: ServiceAccount t1/acct is missing permissions: in namespace t1 {…}")},
		{"still invalid: only its author can fix it", given(phaseFailed, reasonNoRetry, probe(invalid)),
			to(phaseFailed, reasonNoRetry, "install strategy failed: "+invalid.Error())},
		{"still forbidden: no watch reports when this ends", given(phaseFailed, reasonNoRetry, probe(forbidden), after(time.Hour)),
			Transition{Phase: phaseFailed, Reason: reasonNoRetry, After: 5 * time.Minute, Message: "install strategy failed: " + forbidden.Error()}},
		{"still refused by a policy", given(phaseFailed, reasonNoRetry, probe(policy), after(time.Minute)),
			Transition{Phase: phaseFailed, Reason: reasonNoRetry, After: time.Minute, Message: "install strategy failed: " + policy.Error()}},
		{"still refused by a webhook", given(phaseFailed, reasonNoRetry, probe(hook), after(time.Hour)),
			Transition{Phase: phaseFailed, Reason: reasonNoRetry, After: 5 * time.Minute, Message: "install strategy failed: " + hook.Error()}},
		{"a call is still refused by a policy", given(phaseFailed, reasonNoRetry, func(f *Facts) { f.CallRefused = policy }, after(time.Minute)),
			Transition{Phase: phaseFailed, Reason: reasonNoRetry, After: time.Minute, Message: "install strategy failed: " + policy.Error()}},
		{"the dry run has no result", given(phaseFailed, reasonNoRetry, probe(errors.New("connection refused"))),
			Transition{Phase: phaseFailed, Reason: reasonNoRetry, After: 900 * time.Millisecond, Message: "before"}},
		{"the dry run times out", given(phaseFailed, reasonNoRetry, probe(apierrors.NewTimeoutError("later", 1))),
			Transition{Phase: phaseFailed, Reason: reasonNoRetry, After: 900 * time.Millisecond, Message: "before"}},
		{"a webhook does not support dry runs, after a refused one", given(phaseFailed, reasonNoRetry, probe(noDryRun), func(f *Facts) { f.WasRefused = true }),
			Transition{Phase: phaseFailed, Reason: reasonNoRetry, After: 900 * time.Millisecond, Message: "before"}},
		{"a webhook does not support dry runs: only a write shows the result", given(phaseFailed, reasonNoRetry, probe(noDryRun), after(time.Second)),
			to(phasePending, reasonClusterChange, "Cluster resources changed state")},
		{"the dry run has no result, but the account lacks a permission", given(phaseFailed, reasonNoRetry, probe(noDryRun), func(f *Facts) { f.Refused = denied }),
			to(phaseFailed, reasonNoRetry, "install strategy failed: ServiceAccount t1/acct is missing permissions: in namespace t1 {…}")},
		{"allowed now", given(phaseFailed, reasonNoRetry), to(phasePending, reasonClusterChange, "Cluster resources changed state")},
		{"failed just now", given(phaseFailed, reasonComponentFailed), Transition{Phase: phaseFailed, Reason: reasonComponentFailed, Message: "before",
			After: 900 * time.Millisecond}},
		{"retry", given(phaseFailed, reasonComponentFailed, after(time.Second)), to(phasePending, reasonNeedsReinstall, "calculated deployment install is bad")},
		{"timeout, still waiting", given(phaseFailed, reasonInstallCheckFailed, deployments(waitingD)), to(phaseFailed, reasonInstallCheckFailed, "before")},
		{"timeout, ready after all", given(phaseFailed, reasonInstallCheckFailed, deployments(ready)), to(phaseSucceeded, reasonInstallSuccessful, "install strategy completed with no errors")},
		{"timeout, deleted", given(phaseFailed, reasonInstallCheckFailed, deployments(missing)), to(phasePending, reasonNeedsReinstall, "calculated deployment install is bad")},
		{"unhealthy, missing", given(phaseFailed, reasonComponentUnhealthy, deployments(missing)), to(phasePending, reasonNeedsReinstall, "calculated deployment install is bad")},
		{"unhealthy, recovered", given(phaseFailed, reasonComponentUnhealthy, deployments(ready)), to(phaseSucceeded, reasonInstallSuccessful, "install strategy completed with no errors")},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, Next(tc.facts)) })
	}
}

func TestFailuresOfAnInstall(t *testing.T) {
	collision := &apply.CollisionError{Object: "Deployment t1/d", Why: "other"}
	for _, tc := range []struct {
		name   string
		err    error
		phase  operatorsv1alpha1.ClusterServiceVersionPhase
		reason operatorsv1alpha1.ConditionReason
	}{
		{"forbidden", forbidden, phaseFailed, reasonNoRetry},
		{"invalid", invalid, phaseFailed, reasonNoRetry},
		{"a policy", policy, phaseFailed, reasonNoRetry},
		{"a webhook", hook, phaseFailed, reasonNoRetry},
		{"collision", collision, phaseFailed, reasonNoRetry},
		{"anything else", errors.New("connection refused"), phaseFailed, reasonComponentFailed},
		{"account lost", &scoped.Error{Reason: scoped.AccountNotEnrolled, Message: "x"}, phasePending, "AccountNotEnrolled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := Failed(tc.err)
			require.True(t, ok)
			require.Equal(t, tc.phase, got.Phase)
			require.Equal(t, tc.reason, got.Reason)
		})
	}
	_, ok := Failed(apierrors.NewConflict(schema.GroupResource{}, "d", errors.New("edited")))
	require.False(t, ok, "a conflict does not change the phase")
}

func TestRepairsAreRetriedWithBackoff(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	next := start
	var waits []time.Duration
	for range 12 {
		now := next // SetPhase keeps the pointer
		csv.SetPhase(phasePending, reasonNeedsReinstall, "", &now)
		csv.SetPhase(phaseInstallReady, reasonRequirementsMet, "", &now)
		csv.SetPhase(phaseFailed, reasonComponentFailed, "", &now)
		wait := backoff(Facts{CSV: csv, Now: now.Time})
		waits = append(waits, wait)
		next = metav1.NewTime(now.Add(wait))
	}
	require.Equal(t, time.Second, waits[0])
	require.Greater(t, waits[5], 10*time.Second)
	require.Equal(t, maxBackoff, waits[11])
	require.LessOrEqual(t, len(csv.Status.Conditions), 20)
}

func TestTheProofDeterminesTheLineage(t *testing.T) {
	r := &Reconciler{Options: Options{Proofs: proofs.Keys()}}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Name, csv.Namespace = "demo.v1.0.0", "t1"
	direct := ownerutil.Lineage{Package: "demo", Namespace: "t1", Direct: true}
	require.Equal(t, direct, r.ownerOf(csv, nil).Lineage)

	pkg := "a-package"
	sub := &operatorsv1alpha1.Subscription{Spec: &operatorsv1alpha1.SubscriptionSpec{Package: pkg}}
	owner := r.ownerOf(csv, nil)
	owner.Package, owner.Direct = pkg, false
	csv.Labels = owner.Labels()
	require.Equal(t, direct, r.ownerOf(csv, sub).Lineage, "a label without a proof is ignored")
	proofs.Mark(csv, owner)
	require.Equal(t, pkg, r.ownerOf(csv, sub).Package)
	require.Equal(t, pkg, r.ownerOf(csv, nil).Package, "the component label names the package")

	delete(csv.Labels, owner.ComponentLabel())
	csv.Annotations["operatorframework.io/properties"] = `{"properties":[{"type":"olm.package","value":{"packageName":"a-package"}}]}`
	require.Equal(t, pkg, r.ownerOf(csv, nil).Package, "the properties name the package")
}
