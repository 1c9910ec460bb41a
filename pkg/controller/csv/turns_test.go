package csv

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/test/env/proofs"
)

// crowded gives the demo many Deployments.
func crowded(n int) change {
	return spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		specs := &s.InstallStrategy.StrategySpec.DeploymentSpecs
		for i := len(*specs); i < n; i++ {
			one := *(*specs)[0].DeepCopy()
			one.Name = fmt.Sprintf("demo-%03d", i)
			*specs = append(*specs, one)
		}
	})
}

// about returns the recorded requests about Deployments.
func about(requests []string) []string {
	return slices.DeleteFunc(requests, func(r string) bool { return !strings.Contains(r, " Deployment t1/") })
}

// A ClusterServiceVersion with many Deployments must not occupy a worker until all of them are written: other namespaces have
// their turn in between. A turn repeats no request of an earlier one.
func TestManyDeploymentsAreWrittenInTurns(t *testing.T) {
	t.Parallel()
	const all = 2*deployment.MaxWritten + 10
	w := newWorld(t)
	crowded(all)(w)
	var err error
	w.r, err = New(w.options)
	require.NoError(t, err)
	var wrote []int
	var messages []string
	for range 12 {
		result, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
		require.NoError(t, err)
		writes, requests := len(about(w.Writes())), len(about(w.Requests()))
		require.LessOrEqual(t, requests, 2*deployment.MaxWritten, "a turn reads only what it writes or compares")
		if writes == deployment.MaxWritten {
			require.Equal(t, turnPause, result.RequeueAfter)
		}
		require.True(t, w.Has(w.csv))
		if wrote = append(wrote, writes); writes > 0 {
			messages = append(messages, w.csv.Status.Message)
		}
	}
	wrote = slices.DeleteFunc(wrote, func(n int) bool { return n == 0 })
	require.Equal(t, []int{deployment.MaxWritten, deployment.MaxWritten, 10}, wrote)
	require.Equal(t, []string{
		"installing: at least 40% of the 110 deployments have been written", "installing: at least 90% of the 110 deployments have been written",
	}, messages[:2])
	require.Contains(t, w.csv.Status.Message, "waiting for deployment demo to become ready")
}

func TestATurnOfDeploymentsEndsAfterSomeTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crowded(10)(w)
	var err error
	w.r, err = New(w.options)
	require.NoError(t, err)
	w.Before("acct: apply Deployment t1/demo-003", passing(turnTime).do(w))
	var wrote []int
	for range 8 {
		_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
		require.NoError(t, err)
		if n := len(about(w.Writes())); n > 0 {
			wrote = append(wrote, n)
		}
	}
	require.Equal(t, []int{4, 6}, wrote)
	began := time.Now()
	slow := turn{end: began.Add(turnTime), clock: clocktesting.NewFakePassiveClock(began.Add(turnTime))}
	require.True(t, slow.isLong(1))
	require.False(t, slow.isLong(0), "the next turn would begin with the same Deployments")
	slow.clock = clocktesting.NewFakePassiveClock(began.Add(longestTurn))
	require.True(t, slow.isLong(0))
}

func TestManyDeploymentsAreDeletedInTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crowded(deployment.MaxWritten + 21)(w)
	settled(w)
	spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		specs := &s.InstallStrategy.StrategySpec.DeploymentSpecs
		*specs = (*specs)[:1]
	})(w)
	var deleted []int
	for range 6 {
		_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
		require.NoError(t, err)
		if n := len(slices.DeleteFunc(w.Writes(), func(r string) bool { return !strings.HasPrefix(r, "acct: delete Deployment") })); n > 0 {
			deleted = append(deleted, n)
		}
	}
	require.Equal(t, []int{deployment.MaxWritten, 20}, deleted)
}

// The retry of a refused install tries a part of the Deployments.
func TestManyDeploymentsAreTriedInPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crowded(2 * deployment.MaxWritten)(w)
	limited(quota)(w)
	require.Equal(t, phaseFailed, w.settle().phase)
	w.Refuse("acct: try Deployment t1/demo", nil)
	w.Requests()
	var tries []int
	for range 4 {
		w.turn()
		tries = append(tries, len(slices.DeleteFunc(w.Requests(), func(r string) bool { return !strings.HasPrefix(r, "acct: try Deployment") })))
	}
	require.Equal(t, deployment.MaxWritten, slices.Max(tries))
}

// wide gives the demo its own namespace and n others as targets. It then has a Role and a binding in each of them.
func wide(n int) change {
	all := []string{"t1"}
	for i := range n {
		all = append(all, fmt.Sprintf("x%02d", i))
	}
	return targets(all...)
}

// turn reconciles once, and returns the objects that the account wrote or deleted, without repetitions, and when the next turn is.
func (w *world) turn() (objects []string, after time.Duration) {
	w.t.Helper()
	if w.r == nil {
		var err error
		w.r, err = New(w.options)
		require.NoError(w.t, err)
	}
	result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.csv)})
	require.NoError(w.t, err)
	for _, write := range w.Writes() {
		if m := changesOne.FindString(write); m != "" && !strings.Contains(m, "-condition-") && !slices.Contains(objects, m) {
			objects = append(objects, m)
		}
	}
	w.Has(w.csv)
	return objects, result.RequeueAfter
}

// changesOne matches a write of one of the objects that are written in turns.
var changesOne = regexp.MustCompile(`^acct: (apply|delete) (ServiceAccount|Role|RoleBinding|ClusterRole|ValidatingWebhookConfiguration|Deployment) .*`)

// turnsOf reconciles until nothing changes and no further turn is requested, and returns the objects of each turn. No turn is too large.
func (w *world) turnsOf() (out [][]string) {
	w.t.Helper()
	idle := 0
	for range 30 {
		objects, after := w.turn()
		require.LessOrEqual(w.t, len(objects), turnSize)
		out = append(out, objects)
		if idle++; len(objects) > 0 || after == turnPause {
			idle = 0
		}
		if idle == 3 {
			return out
		}
	}
	w.t.Fatal("there is always another turn")
	return nil
}

func deletesOf(objects []string) int {
	return len(slices.DeleteFunc(slices.Clone(objects), func(o string) bool { return !strings.HasPrefix(o, "acct: delete") }))
}

// A ClusterServiceVersion with many roles must not occupy a worker until all of them are written.
func TestManyRolesAreWrittenInTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wide(60)(w)
	const all = 1 + 2*61
	first, _ := w.turn() // it also annotates the ClusterServiceVersion, so that the cache has an older one
	second, after := w.turn()
	require.Len(t, second, turnSize)
	require.Equal(t, turnPause, after)
	require.Equal(t, phasePending, w.csv.Status.Phase)
	require.Equal(t, "requirements not yet checked; in progress: at least 70% of the 123 ServiceAccounts, roles and bindings have been written", w.csv.Status.Message)
	require.Empty(t, w.csv.Status.RequirementStatus, "the requirements are not known yet")
	require.False(t, w.Has(deploymentOf("demo")), "the Deployments wait for all roles")
	third, _ := w.turn()
	wrote := slices.DeleteFunc(slices.Concat(first, second, third), func(o string) bool { return o == deploys })
	require.LessOrEqual(t, len(first), turnSize)
	require.Len(t, wrote, all)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(wrote))), all, "nothing is written twice")
	got := w.settle()
	require.Equal(t, phaseInstalling, got.phase)
	require.NotContains(t, got.message, noteProgress)
}

// Other users can make each request slow.
func TestATurnEndsAfterSomeTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wide(5)(w)
	w.Before("acct: apply Role x01/demo.v1.0.0-demo-#", passing(turnTime-1).do(w))
	w.Before("acct: apply Role x02/demo.v1.0.0-demo-#", passing(1).do(w))
	objects, _ := w.turn()
	require.Equal(t, "acct: apply Role x02/demo.v1.0.0-demo-#", objects[len(objects)-1])
	objects, _ = w.turn()
	require.Equal(t, "acct: apply Role x03/demo.v1.0.0-demo-#", objects[0])
	require.Equal(t, phaseInstalling, w.settle().phase)
}

func (c change) do(w *world) func() { return func() { c(w) } }

// unseen is a cache that does not show roles and bindings.
type unseen struct {
	client.Client

	hides *bool
}

func (u unseen) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch obj.(type) {
	case *rbacv1.Role, *rbacv1.RoleBinding:
		if *u.hides {
			return apierrors.NewNotFound(rbacv1.Resource("roles"), key.Name)
		}
	}
	return u.Client.Get(ctx, key, obj, opts...)
}

// Without a memory of what a turn has written, a cache that has not observed it would make the next turn begin with it again.
func TestATurnContinuesAfterObjectsThatTheCacheDoesNotShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wide(60)(w)
	hides := true
	w.options.Client = unseen{w.options.Client, &hides}
	first, _ := w.turn()
	second, after := w.turn()
	require.Equal(t, turnPause, after)
	reads := w.Requests()
	third, after := w.turn()
	require.Len(t, slices.Concat(first, second, third), 1+2*61)
	for _, read := range w.Requests() {
		if strings.Contains(read, ": get Role") {
			require.NotContains(t, reads, read, "nothing is read again")
		}
	}
	require.Equal(t, turnPause, after, "what has been written may have changed since")
	require.Equal(t, phasePending, w.csv.Status.Phase)
	require.False(t, w.Has(deploymentOf("demo")))
	hides = false
	require.Equal(t, phaseInstalling, w.settle().phase)
}

// Roles that users of some targets occupy are tried again in each run, but not in each turn: the others would never have theirs.
func TestManyOccupiedTargetsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	const occupied = turnSize + 5
	w := newWorld(t)
	wide(occupied + 1)(w)
	w.turnsOf()
	available("demo")(w)
	w.turnsOf()
	require.Equal(t, phaseSucceeded, w.csv.Status.Phase, w.csv.Status.Message)
	for i := range occupied + 1 {
		role := w.roles(fmt.Sprintf("x%02d", i))[0].DeepCopy()
		w.Delete(role)
		if i < occupied {
			w.Put(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: role.Name}})
		}
	}
	w.Requests()
	var wrote []string
	for i := range 2 {
		objects, after := w.turn()
		reads := slices.DeleteFunc(w.Requests(), func(r string) bool { return !strings.HasPrefix(r, "remit: get Role x") })
		require.LessOrEqual(t, len(reads), turnSize)
		wrote = append(wrote, objects...)
		require.Equal(t, phaseSucceeded, w.csv.Status.Phase)
		require.NotContains(t, w.csv.Status.Message, "has been written")
		if i == 0 {
			require.Equal(t, turnPause, after)
		}
	}
	require.Equal(t, []string{"acct: apply Role x55/demo.v1.0.0-demo-#"}, wrote)
	_, _ = w.turn()
	_, after := w.turn()
	require.Contains(t, w.csv.Status.Message, "the operator gets no permissions in namespace x00: Role x00/")
	require.Contains(t, w.csv.Status.Message, "; and 5")
	require.Equal(t, maxBackoff, after, "an object that was refused in an earlier turn is tried again")
}

// The collisions of many objects are looked for in turns as well. Nothing is written before all are known.
func TestManyObjectsAreComparedInTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	crowded(turnSize + 10)(w)
	theirs := deploymentOf(fmt.Sprintf("demo-%03d", turnSize+9))
	w.Put(theirs)
	objects, after := w.turn()
	require.Empty(t, objects)
	require.Equal(t, turnPause, after)
	reads := w.Requests()
	require.LessOrEqual(t, len(reads), 2*turnSize)
	require.NotContains(t, strings.Join(reads, "\n"), theirs.Name)
	objects, _ = w.turn()
	require.Empty(t, objects)
	require.Contains(t, w.csv.Status.Message, "Deployment t1/"+theirs.Name+" already exists")
	require.NotContains(t, strings.Join(w.Requests(), "\n"), "get Deployment t1/demo-001", "nothing is read again")
}

func TestManyRolesAreDeletedInTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wide(60)(w)
	w.turnsOf()
	available("demo")(w)
	w.turnsOf()
	require.Equal(t, phaseSucceeded, w.csv.Status.Phase, w.csv.Status.Message)
	wide(0)(w)
	objects, _ := w.turn() // it also annotates the ClusterServiceVersion
	require.Equal(t, turnSize, deletesOf(objects))
	objects, after := w.turn()
	require.Equal(t, turnSize, deletesOf(objects))
	require.Equal(t, turnPause, after)
	require.Equal(t, phaseSucceeded, w.csv.Status.Phase)
	require.Contains(t, w.csv.Status.Message, "; in progress: at least 80% of the 120 roles and bindings that are no longer needed have been removed")
	objects, _ = w.turn()
	require.Equal(t, 20, deletesOf(objects))
	require.NotContains(t, w.settle().message, noteProgress)
}

func TestManyRolesOfAnEarlierVersionAreDeletedInTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wide(30)(w)
	w.turnsOf()
	available("demo")(w)
	w.turnsOf()
	next(w)
	w.turnsOf()
	as("demo.v2.0.0")(w)
	w.turnsOf()
	available("demo")(w)
	var deleted []int
	for range 6 {
		objects, after := w.turn()
		n := deletesOf(objects)
		if len(deleted) == 0 && n > 0 {
			require.Equal(t, turnPause, after)
			require.Contains(t, w.csv.Status.Message, "; in progress: at least 70% of the 64 roles and bindings of earlier versions have been removed")
		}
		if n > 0 {
			deleted = append(deleted, n)
		}
	}
	require.Equal(t, []int{turnSize - 2, 14}, deleted, "without two that let it report conditions")
	require.Equal(t, phaseSucceeded, w.csv.Status.Phase)
	require.NotContains(t, w.csv.Status.Message, noteProgress)
}

// What earlier versions have is removed only after everything of this version has been written.
func TestNothingIsRetiredWhileRolesWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wide(30)(w)
	w.turnsOf()
	available("demo")(w)
	w.turnsOf()
	left := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "left"}}
	proofs.Mark(left, w.r.ownerOf(w.csv, nil))
	left.Labels[names.LabelOwner], left.Labels[names.LabelOwnerNamespace], left.Labels[names.LabelOwnerKind] = "demo.v0.9.0", "t1", operatorsv1alpha1.ClusterServiceVersionKind
	w.Put(left)
	for i := range 30 {
		namespace := fmt.Sprintf("x%02d", i)
		w.Delete(w.roles(namespace)[0].DeepCopy())
		bindings := w.bindings(namespace)
		w.Delete(&bindings[0])
	}
	objects, after := w.turn()
	require.Len(t, objects, turnSize)
	require.Zero(t, deletesOf(objects))
	require.Equal(t, turnPause, after)
	w.turnsOf()
	require.False(t, w.Has(left))
}

func TestManyClusterRolesArePublishedInTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := (&Reconciler{Options: Options{Proofs: proofs.Keys()}}).ownerOf(w.csv, nil)
	var owned []operatorsv1alpha1.CRDDescription
	for i := range 14 {
		crd := things()
		crd.Name = fmt.Sprintf("things%02d.example.com", i)
		crd.Spec.Names.Kind, crd.Spec.Names.Plural = fmt.Sprintf("Thing%02d", i), fmt.Sprintf("things%02d", i)
		proofs.Mark(crd, owner)
		w.Put(crd)
		owned = append(owned, operatorsv1alpha1.CRDDescription{Name: crd.Name, Version: "v1", Kind: crd.Spec.Names.Kind})
	}
	n := 14 * len(provided.RolesOf(provided.API{Kind: "Thing", Version: "v1", Group: "example.com", Plural: "things"}))
	require.Greater(t, n, turnSize)
	spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) { s.CustomResourceDefinitions.Owned = owned })(w)
	w.turnsOf()
	available("demo")(w)
	published := 0
	for _, objects := range w.turnsOf() {
		published += len(objects)
	}
	for range 3 {
		objects, _ := w.turn()
		require.LessOrEqual(t, len(objects), turnSize)
		published += len(objects)
	}
	require.Equal(t, n, published)
}

func TestManyObjectsOfADeletedVersionAreRemovedInTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wide(30)(w)
	w.turnsOf()
	available("demo")(w)
	w.turnsOf()
	w.Delete(w.csv.DeepCopy())
	objects, after := w.turn()
	require.Equal(t, turnSize, deletesOf(objects))
	require.Equal(t, turnPause, after)
	require.True(t, w.Has(w.csv), "the finalizer is kept")
	require.Equal(t, phaseSucceeded, w.csv.Status.Phase)
	require.Contains(t, w.csv.Status.Message, "; in progress: at least 80% of the 60 objects ")
	objects, _ = w.turn()
	require.Equal(t, 10, deletesOf(objects))
	require.False(t, w.Has(w.csv))
}

func TestManyWebhooksAreRemovedInTurnsFromATerminatingNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	installed(w)
	for i := range turnSize + 1 {
		hook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("hook-%02d", i)}}
		proofs.Mark(hook, w.r.ownerOf(w.csv, nil))
		hook.Labels[names.LabelOwner], hook.Labels[names.LabelOwnerNamespace] = ownerutil.LabelValue(w.csv.Name), "t1"
		w.Put(hook)
	}
	terminating(w)
	objects, after := w.turn()
	require.Equal(t, turnSize, deletesOf(objects))
	require.Equal(t, turnPause, after)
	objects, _ = w.turn()
	require.Equal(t, 1, deletesOf(objects))
}

// The rules of such a Role must be removed as soon as possible, so that its refusal is not remembered.
func TestARoleWhoseRulesRemainIsTriedInEachTurn(t *testing.T) {
	t.Parallel()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "a"}}
	for _, row := range []struct {
		err   error
		calls int
	}{
		{&execute.RemainingError{Why: errors.New("a binding"), Delayed: &apply.DelayedError{Why: "its rules could not be removed"}}, 2},
		{&apply.DelayedError{Why: "it is being deleted"}, 1},
	} {
		calls := 0
		act := func() (bool, error) { calls++; return false, row.err }
		first := turn{}
		_, err := first.do(taskWrite, role, act)
		require.ErrorIs(t, err, row.err)
		next := turn{before: first.outcomes}
		_, err = next.do(taskWrite, role, act)
		require.True(t, execute.Occupies(err), "%v", err)
		require.Equal(t, row.calls, calls)
	}
}

// The text of a refusal is the API server's, and others choose parts of it.
func TestWhatIsRememberedOfARefusalIsSmallAndOfItsKind(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 10_000)
	for _, err := range []error{
		&MissingPermissionsError{Missing: []string{long}}, &apply.DelayedError{Why: long}, &apply.CollisionError{Why: long},
		&apply.TooLargeError{Object: "Role t1/a", Cost: 2, Limit: 1},
		&apierrors.StatusError{ErrStatus: metav1.Status{Code: 418, Message: `admission webhook "w.example.com" denied the request: ` + long}},
		apierrors.NewForbidden(rbacv1.Resource("roles"), long, nil), apierrors.NewBadRequest(long),
		&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Code: 403, Message: "exceeded quota: " + long}},
	} {
		got := remembered(err)
		require.LessOrEqual(t, len(got.Error()), 2*maxLines)
		require.Equal(t, isReported(err), isReported(got))
		require.Equal(t, isMissingPermissions(err), isMissingPermissions(got))
		require.Equal(t, isDenied(err), isDenied(got))
		require.Equal(t, isRechecked(err), isRechecked(got))
		require.Equal(t, refusal(err), refusal(got))
		require.Equal(t, execute.Occupies(err), execute.Occupies(got), "%v", got)
	}
}

// The facts on which phases depend are not gathered before all roles are written.
func TestThePhaseStaysWhileRolesWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	const progress = "at least 40% of the 5000 roles have been written"
	unwritten := func(f *Facts) { f.Unwritten, f.Unsynced, f.Evaluated, f.Progress = true, true, false, progress }
	for _, phase := range []operatorsv1alpha1.ClusterServiceVersionPhase{phasePending, phaseInstalling, phaseSucceeded, phaseFailed} {
		f := given(phase, reasonNeedsReinstall, unwritten, func(f *Facts) { f.Now = f.Now.Add(2 * installTimeout) })
		got := Next(f)
		require.Equal(t, to(phase, reasonNeedsReinstall, "before; in progress: "+progress), got)
		f.CSV.Status.Message = got.Message
		require.Equal(t, got, Next(f), "the report is replaced")
		f.Progress = ""
		require.Equal(t, "before", Next(f).Message)
	}
	require.Equal(t, phasePending, Next(given(phaseNone, "", unwritten)).Phase)
}
