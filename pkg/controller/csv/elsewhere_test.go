package csv

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/recorded"
)

// admitted makes namespaces the targets of the OperatorGroup, each of which lets the account do everything. Elsewhere, it may only read
// ServiceAccounts.
func admitted(namespaces ...string) change {
	return func(w *world) {
		targets(namespaces...)(w)
		everything := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
		w.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}, Rules: []rbacv1.PolicyRule{everything}})
		for _, n := range namespaces {
			b := admission(n)
			b.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}
			b.Subjects = []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}}
			w.Put(b)
		}
		w.put(rule("", "serviceaccounts", "get"))
	}
}

// admission is the RoleBinding with which a namespace admits the account.
func admission(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "admission"}}
}

// expelled ends what a namespace has permitted to the account.
func expelled(namespace string) change { return without(admission(namespace)) }

// admittedTo makes rules all that a namespace permits to the account.
func admittedTo(namespace string, rules ...rbacv1.PolicyRule) change {
	return func(w *world) {
		w.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "limited"}, Rules: rules})
		recorded.Edit(w.Server, admission(namespace), func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "limited" })
	}
}

// operatorBinding returns the binding of the demo's ServiceAccount in a namespace, and nil if there is none.
func (w *world) operatorBinding(namespace string) *rbacv1.RoleBinding {
	for _, b := range w.bindings(namespace) {
		if strings.HasPrefix(b.Name, "demo.v1.0.0-demo-") {
			return &b
		}
	}
	return nil
}

// keptBinding deletes the binding of the demo's ServiceAccount in a namespace, where a finalizer keeps it.
func keptBinding(namespace string) change {
	return func(w *world) {
		b := w.operatorBinding(namespace)
		b.Finalizers = []string{"a.example/x"}
		w.Put(b)
		w.Delete(b)
	}
}

// extended adds rules to the demo's Role in a namespace.
func extended(namespace string) change {
	return func(w *world) {
		for _, role := range w.roles(namespace) {
			if strings.HasPrefix(role.Name, "demo.v1.0.0-demo-") {
				role = role.DeepCopy()
				role.Rules = []rbacv1.PolicyRule{rule("others.example.com", "things", "get")}
				w.Put(role)
			}
		}
	}
}

// inTargets installs the demo for several targets, and makes the changes.
func (w *world) inTargets(changes ...change) effect {
	w.t.Helper()
	admitted("t1", "t2", "t3")(w)
	return w.given(changes...)
}

func withRemover(w *world) {
	w.options.Remover = func(context.Context, rbac.Listers) (client.Client, error) { return w.Client("remover"), nil }
}

// Users of one target namespace decide what the account may do there, and can keep what was deleted. This is reported, and its removal
// is tried, but the operator continues to be installed for the other targets.
func TestAnExcessInATargetAffectsOnlyThisTarget(t *testing.T) {
	t.Parallel()
	due := passing(excess.DefaultGrace)
	const missing = `; ExceedsAccount: ServiceAccount t1/acct is missing permissions: in namespace t2 {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`
	for name, row := range map[string]struct {
		given   []change
		message string
	}{
		"reported at once":       {given: []change{expelled("t2")}, message: missing + "; the operator has them through RoleBinding t2/demo.v1.0.0-demo-#"},
		"that cannot be removed": {given: []change{expelled("t2"), settled, due}, message: "to remove them, run: kubectl delete rolebinding demo.v1.0.0-demo-# -n t2"},
		"that a finalizer keeps": {given: []change{expelled("t2"), settled, keptBinding("t2"), due},
			message: `kubectl patch rolebinding demo.v1.0.0-demo-# -n t2 --type=merge -p '{"metadata":{"finalizers":null}}'`},
		"that is removed": {given: []change{withRemover, expelled("t2"), settled, due}, message: completed + missing},
		"of a Role with other rules, which a finalizer keeps": {given: []change{admittedTo("t2", rule("", "pods", "get"), rule(rbacv1.GroupName, "*", "get", "create", "patch", "delete")), keptInDeletion("t2"), keptBinding("t2"), extended("t2"), settled, due},
			message: `in namespace t2 {apiGroups: ["others.example.com"], resources: ["things"], verbs: ["get"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if strings.Contains(name, "is removed") {
				withRemover(w)
			}
			got := w.inTargets(row.given...)
			require.Equal(t, phaseSucceeded, got.phase, got.message)
			require.NotContains(t, got.moves, "ExceedsAccount!", "it never fails")
			require.Equal(t, reasonInstallSuccessful, got.reason, "the reason is about the operator's own namespace")
			require.Contains(t, got.message, row.message)
			require.NotContains(t, got.message, "in namespace t1")
			if strings.Contains(name, "is removed") {
				require.Subset(t, got.writes, []string{"remover: delete RoleBinding t2/demo.v1.0.0-demo-#"})
				require.Nil(t, w.operatorBinding("t2"))
			}

			passing(time.Minute)(w)
			again := w.settle()
			require.Equal(t, got.message, again.message, "the report is stable")
			require.Equal(t, phaseSucceeded, again.phase)

			// Everything else is maintained.
			w.Delete(w.operatorBinding("t3"))
			got = w.settle()
			require.NotNil(t, w.operatorBinding("t3"))
			require.Equal(t, phaseSucceeded, got.phase, got.message)
			if w.operatorBinding("t2") != nil && !strings.Contains(name, "with other rules") {
				return // a new Deployment would have permissions that the account lacks
			}
			w.Delete(deploymentOf("demo"))
			got = w.settle()
			require.True(t, w.Has(deploymentOf("demo")), got.message)
			available("demo")(w)
			require.Equal(t, phaseSucceeded, w.settle().phase, w.csv.Status.Message)

			w.Put(group("og", "acct", "t1", "t3"))
			settled(w)
			available("demo")(w)
			passing(time.Minute)(w)
			got = w.settle()
			require.Equal(t, phaseSucceeded, got.phase, got.message)
			require.NotContains(t, got.message, "RoleBinding t2/", "what a finalizer keeps outside the targets does not count")
		})
	}
}

// A target where the account may not restore a deleted binding is left out, too.
func TestATargetWithoutPermissionToWriteAffectsOnlyThisTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.inTargets(admittedTo("t2", rule("", "pods", "get")), func(w *world) { w.Delete(w.operatorBinding("t2")) })
	require.Equal(t, phaseSucceeded, got.phase, got.message)
	require.Contains(t, got.message, "; the operator gets no permissions in namespace t2: ServiceAccount t1/acct is missing permissions: in namespace t2 ")
	require.Empty(t, got.writes)
	w.Delete(w.operatorBinding("t3"))
	w.settle()
	require.NotNil(t, w.operatorBinding("t3"))
}

// Users name the targets, which need not exist. What is asked about them, and remembered, has one limit.
func TestAllTargetsAreCheckedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Equal(t, phaseSucceeded, w.inTargets().phase)
	var all []string
	for i := range 200 {
		all = append(all, fmt.Sprint("t", i+1))
	}
	admitted(all...)(w)
	for _, n := range all[3:] {
		admittedTo(n, rule("", "pods", "get"))(w)
	}
	ask, asked := w.r.confirmer.Ask, map[string]bool{}
	var mu sync.Mutex
	w.r.confirmer.Ask = func(ctx context.Context, s rbac.Subject, namespace string, atom rbacv1.PolicyRule) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[namespace+" "+rbac.Line(atom)] = true
		return ask(ctx, s, namespace, atom)
	}
	require.Equal(t, phaseInstalling, w.settle().phase, "the Deployment knows its targets")
	require.NotEmpty(t, asked)
	require.LessOrEqual(t, len(asked), preflight.MaxReviews)
}

// Without an install, missing permissions in any target prevent the first write (docs/adr/0087).
func TestMissingPermissionsInATargetPreventTheFirstWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admitted("t1", "t2")(w)
	expelled("t2")(w)
	got := w.settle()
	require.Equal(t, phasePending, got.phase)
	require.Equal(t, reasonRequirementsNotMet, got.reason)
	require.Contains(t, got.message, "in namespace t2")
	require.Nil(t, w.operatorBinding("t1"))
	require.False(t, w.Has(deploymentOf("demo")))
}

// What exceeds the account in the operator's own namespace has its own grace period, and still makes the operator fail.
func TestAnExcessAtHomeIsIndependentOfTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.inTargets(expelled("t2"), settled, keptBinding("t2"), passing(excess.DefaultGrace), settled, expelled("t1"))
	require.Equal(t, phaseSucceeded, got.phase, got.message)
	require.Equal(t, reasonExceedsAccount, got.reason)
	require.Contains(t, got.message, "at "+w.clock.Now().Add(excess.DefaultGrace).UTC().Format(time.RFC3339)+", Remit removes them")
	require.NotNil(t, w.operatorBinding("t1"))

	passing(excess.DefaultGrace)(w)
	got = w.settle()
	require.Equal(t, phaseFailed, got.phase, got.message)
	require.Equal(t, reasonExceedsAccount, got.reason)
	require.Contains(t, got.message, "kubectl delete rolebinding demo.v1.0.0-demo-# -n t1")
}

// An excess elsewhere that was reported before a restart does not shorten the grace period of the operator's own namespace.
func TestTheReportOfAnExcessElsewhereBeginsNoGracePeriod(t *testing.T) {
	t.Parallel()
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	at := metav1.NewTime(time.Now())
	csv.Status.Conditions = []operatorsv1alpha1.ClusterServiceVersionCondition{{Phase: phaseSucceeded, Reason: reasonExceedsAccount, LastUpdateTime: &at}}
	require.Equal(t, at.Time, excessReported(csv, place{}))
	require.Zero(t, excessReported(csv, place{elsewhere: true}))
}
