package csv

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

// weak makes the account unable to grant the demo's permissions, but still able to delete its roles and bindings.
func weak(w *world) {
	w.put(rule("", "serviceaccounts", "get"), rule(rbacv1.GroupName, "roles", "delete"), rule(rbacv1.GroupName, "rolebindings", "delete"),
		rule("apps", "deployments", "get", "create", "patch"))
}

// powerless makes the account unable to delete anything as well.
func powerless(w *world) { w.put(rule("", "serviceaccounts", "get")) }

func strong(w *world) {
	w.put(rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
}

// restarted makes the following reconciles those of a new process.
func restarted(w *world) { w.r = nil }

func annotated(w *world) {
	og := group("og", "acct", "t1")
	og.Annotations = map[string]string{names.AnnotationKeepExcess: "true"}
	w.Put(og)
}

// given installs the demo and makes the changes.
func (w *world) given(changes ...change) effect {
	w.t.Helper()
	installed(w)
	for _, c := range changes {
		c(w)
	}
	return w.settle()
}

const excessPods = `ExceedsAccount: ServiceAccount t1/acct is missing permissions: in namespace t1 {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`

func TestAnExcessIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(powerless)
	require.Equal(t, phaseSucceeded, got.phase)
	require.Equal(t, reasonExceedsAccount, got.reason)
	require.Equal(t, excess.DefaultGrace, got.after)
	require.Empty(t, got.writes)
	require.Equal(t, "ExceedsAccount", got.moves)
	require.True(t, strings.HasPrefix(got.message, completed+"; ExceedsAccount: ServiceAccount t1/acct is missing permissions: "), got.message)
	for _, part := range []string{
		`in namespace t1 {apiGroups: [""], resources: ["pods"], verbs: ["get"]}`, "RoleBinding t1/demo.v1.0.0-demo-#",
		"at " + w.clock.Now().Add(excess.DefaultGrace).UTC().Format(time.RFC3339) + ", Remit removes them. To keep them, grant the permissions to the ServiceAccount, " +
			"or set the annotation remit.dev/keep-excess-permissions=true of OperatorGroup t1/og; " +
			`ExceedsAccount: ServiceAccount t1/acct is missing permissions: in namespace t1 {apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["demo"], verbs: ["create", "get", "patch"]}`,
	} {
		require.Contains(t, got.message, part)
	}
}

func TestAnExcessIsRemovedAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(weak, settled, passing(excess.DefaultGrace-time.Second))
	require.Empty(t, got.writes)
	require.Equal(t, time.Second, got.after)

	passing(time.Second)(w)
	got = w.settle()
	require.Subset(t, got.writes, removed())
	require.Equal(t, phaseFailed, got.phase)
	require.Equal(t, reasonExceedsAccount, got.reason)
	require.Equal(t, "permissions that exceed the account were removed, and are restored when the account has them: "+strings.TrimPrefix(excessPods, "ExceedsAccount: "), got.message)
	require.True(t, w.Has(deploymentOf("demo")), "the operator's Pods continue to run")
	require.True(t, w.Has(serviceAccount("demo")))
	require.Zero(t, got.after)

	strong(w)
	got = w.settle()
	require.Equal(t, phaseSucceeded, got.phase, got.message)
	require.Equal(t, completed, got.message)
	require.Equal(t, slices.Concat(prepares()[2:]), got.writes)
}

func TestWhatStaysAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	due := passing(excess.DefaultGrace)
	for name, row := range map[string]struct {
		given   []change
		message string
		phase   operatorsv1alpha1.ClusterServiceVersionPhase
	}{
		"everything, if the account gets the permissions again": {given: []change{weak, settled, strong, settled, due}, message: completed},
		"everything, if an RBAC change is only reflected for a moment": {
			given: []change{weak, settled, passing(excess.DefaultGrace - time.Second), strong, settled, weak, settled, passing(time.Minute)}, message: "Remit removes them"},
		"what the API server allows": {
			given: []change{weak, settled, due, func(w *world) { w.Allow("*") }}, message: "they are kept, because the API server allows the ServiceAccount what they grant, or did not decide this with 500 questions"},
		"what the annotation keeps": {given: []change{weak, settled, annotated, settled, due}, message: "they are kept because of the annotation remit.dev/keep-excess-permissions of OperatorGroup t1/og"},
		"what the annotation keeps according to the API server": {
			given: []change{weak, settled, func(w *world) { w.Lag(group("og", "acct")); annotated(w) }, due}, message: "Remit removes them"},
		"everything, if the API server knows that OLM manages the namespace": {
			given: []change{weak, settled, func(w *world) { w.Lag(group("og", "acct")); w.Put(ofOLM()) }, due}, message: "Remit removes them"},
		"everything, if the API server knows another account": {
			given: []change{weak, settled, func(w *world) {
				w.Lag(group("og", "acct"))
				w.Put(group("og", "boss", "t1"), serviceAccount("boss"))
			}, due}, message: "Remit removes them"},
		"what the install did not create": {given: []change{unproven("t1"), weak, settled, due}, message: "ExceedsAccount"},
		"what the install did not create according to the API server": {
			given: []change{weak, settled, func(w *world) {
				for _, b := range w.bindings("t1") {
					w.Lag(&b)
				}
				unproven("t1")(w)
			}, due}, message: "may not run as ServiceAccount \"demo\""},
		"everything, if only the account is deleted": {given: []change{without(serviceAccount("acct")), settled, due}, message: "ServiceAccountNotFound"},
		"what another account of the namespace has": {given: []change{weak, settled, func(w *world) {
			everything := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
			w.Put(group("second", "boss", "t1"), bound("boss"), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}, Rules: []rbacv1.PolicyRule{everything}})
		}, due}, message: "csv created in namespace with multiple operatorgroups", phase: phaseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			got := w.given(row.given...)
			require.Contains(t, got.message, row.message)
			require.Equal(t, cmp.Or(row.phase, phaseSucceeded), got.phase, got.message)
			require.Len(t, w.roles("t1"), 2, "the operator's role, and the role for its OperatorCondition")
			for _, write := range got.writes {
				require.NotContains(t, write, "delete", write)
			}
		})
	}
}

func TestAnExcessOfAReplacedVersionIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(next, settled, weak, settled, passing(excess.DefaultGrace))
	require.Equal(t, phaseReplacing, got.phase, got.message)
	require.Subset(t, got.writes, removed())
}

func TestAnExcessOfAFailedVersionIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(without(things()), settled, weak, settled, passing(excess.DefaultGrace))
	require.Equal(t, reasonExceedsAccount, got.reason, got.message)
	require.Subset(t, got.writes, removed())
}

func TestAnExcessThatTheAccountMayNotDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(powerless, settled, passing(excess.DefaultGrace))
	require.Equal(t, phaseFailed, got.phase)
	require.Equal(t, reasonExceedsAccount, got.reason)
	require.Contains(t, got.message, "they cannot be removed (ServiceAccount t1/acct is missing permissions: ")
	require.Contains(t, got.message, "to remove them, run: kubectl delete rolebinding demo.v1.0.0-condition-# -n t1; kubectl delete rolebinding demo.v1.0.0-demo-# -n t1")
	require.Empty(t, got.writes)

	strong(w)
	require.Equal(t, phaseSucceeded, w.settle().phase)
}

// A user who may not grant the permissions can keep deleted roles and bindings in effect with finalizers.
func TestAnExcessThatAFinalizerKeeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(weak, settled, keptInDeletion("t1"), func(w *world) {
		for _, b := range w.bindings("t1") {
			b.Finalizers = []string{"example.com/kept"}
			w.Put(&b)
			w.Delete(&b)
		}
	}, passing(excess.DefaultGrace))
	require.Equal(t, reasonExceedsAccount, got.reason)
	require.Contains(t, got.message, "was deleted, but remains in effect until its finalizers are removed")
	require.Contains(t, got.message, `kubectl patch rolebinding demo.v1.0.0-demo-# -n t1 --type=merge -p '{"metadata":{"finalizers":null}}'`)
}

func TestTheDefaultAccountRemovesAnExcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Default.Account = types.NamespacedName{Namespace: "t1", Name: "boss"}
	w.Put(serviceAccount("boss"))
	got := w.given(powerless, settled, passing(excess.DefaultGrace))
	for _, write := range removed() {
		require.Contains(t, got.writes, strings.Replace(write, "acct:", "boss:", 1))
	}
	require.Equal(t, reasonExceedsAccount, got.reason)
}

// A change between the read and the deletion prevents the deletion.
func TestAnObjectThatChangesIsNotRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Refuse("acct: delete RoleBinding t1/demo.v1.0.0-demo-#", apierrors.NewConflict(rbacv1.Resource("rolebindings"), "demo", errors.New("changed")))
	got := w.given(weak, settled, passing(excess.DefaultGrace))
	require.Empty(t, got.failed)
	require.Len(t, w.bindings("t1"), 1)
}

func TestTheGracePeriodSurvivesARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(weak, settled, passing(6*time.Minute), restarted)
	require.Equal(t, 4*time.Minute, got.after)
	require.Empty(t, got.writes)

	passing(time.Hour)(w)
	restarted(w)
	got = w.settle()
	require.Equal(t, time.Minute, got.after, "a new process observes the excess first")
	require.Empty(t, got.writes)
}

// The status cannot make anything be removed earlier, and cannot delay the removal.
func TestAForgedStatusDoesNotChangeTheGracePeriod(t *testing.T) {
	t.Parallel()
	forge := func(at time.Duration) change {
		return func(w *world) {
			now := metav1.NewTime(w.clock.Now().Add(at))
			editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
				c.Status.Conditions = []operatorsv1alpha1.ClusterServiceVersionCondition{{Phase: phaseFailed, Reason: reasonExceedsAccount, LastUpdateTime: &now, LastTransitionTime: &now}}
				c.Status.Phase, c.Status.Reason = phaseFailed, reasonExceedsAccount
			})(w)
		}
	}
	for name, row := range map[string]struct {
		given []change
		after time.Duration
	}{
		"earlier":                           {given: []change{weak, settled, forge(-time.Hour)}, after: excess.DefaultGrace},
		"later":                             {given: []change{weak, settled, passing(9 * time.Minute), forge(time.Hour)}, after: time.Minute},
		"earlier, before it exists":         {given: []change{forge(-time.Hour), weak}, after: time.Minute},
		"earlier, in a covered install":     {given: []change{forge(-time.Hour), settled, weak}, after: excess.DefaultGrace},
		"later, before a new process reads": {given: []change{weak, settled, forge(time.Hour), restarted}, after: excess.DefaultGrace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			got := w.given(row.given...)
			require.Equal(t, row.after, got.after)
			require.Len(t, w.roles("t1"), 2)
		})
	}
}

// bound lets a ServiceAccount do everything.
func bound(name string) *rbacv1.ClusterRoleBinding {
	b := grant("admin-" + name)
	b.RoleRef.Name, b.Subjects[0].Name = "admin", name
	return b
}

// A user who may write OperatorGroups or ServiceAccounts cannot prevent that permissions are removed.
func TestAnExcessIsRemovedWithoutAnAccount(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]change{
		"no OperatorGroup":                    without(group("og", "")),
		"a second OperatorGroup":              func(w *world) { w.Put(group("second", "acct", "t1")) },
		"a second one without an account":     func(w *world) { w.Put(group("second", "", "t1")) },
		"a second one with a missing account": func(w *world) { w.Put(group("second", "nobody", "t1")) },
		"no name":                             func(w *world) { w.Put(group("og", "", "t1")) },
		"an invalid name":                     func(w *world) { w.Put(group("og", "A B", "t1")) },
		"no ServiceAccount":                   without(serviceAccount("acct")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.options.Remover = func(context.Context, rbac.Listers) (client.Client, error) { return w.Client("remover"), nil }
			got := w.given(powerless, settled, change, settled, passing(excess.DefaultGrace-time.Second))
			require.Empty(t, got.writes, "a short replacement of an OperatorGroup has no effect")
			require.Len(t, w.bindings("t1"), 2)

			passing(time.Second)(w)
			got = w.settle()
			for _, write := range removed() {
				require.Contains(t, got.writes, strings.Replace(write, "acct:", "remover:", 1), got.message)
			}
			require.Empty(t, w.bindings("t1"))
		})
	}
}

// Without an account, everything exceeds it. What an OperatorGroup that is created in time names counts again.
func TestAnOperatorGroupIsReplacedWithinTheGracePeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(without(group("og", "")), settled, passing(excess.DefaultGrace-time.Second), func(w *world) { w.Put(group("new", "acct", "t1")) }, settled, available("demo"),
		passing(excess.DefaultGrace))
	require.Equal(t, phaseSucceeded, got.phase, got.message)
	require.Len(t, w.bindings("t1"), 2)
}

// bindings returns the RoleBindings of a namespace.
func (w *world) bindings(namespace string) []rbacv1.RoleBinding {
	list := &rbacv1.RoleBindingList{}
	require.NoError(w.t, w.Client("test").List(w.t.Context(), list, client.InNamespace(namespace)))
	return list.Items
}

// at is the own place of the demo.
func (w *world) at() place { return place{csv: client.ObjectKeyFromObject(w.csv)} }

// The cache can show more than the API server for as long as users want, and any event of the install would cause an attempt.
func TestAnAttemptThatFindsNothingIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := w.given(weak, settled, func(w *world) {
		for _, b := range w.bindings("t1") {
			w.Lag(&b)
		}
		unproven("t1")(w)
	}, passing(excess.DefaultGrace))
	require.NotContains(t, got.message, "Remit removes them")
	require.Positive(t, w.r.excess.Paused(w.at(), w.clock.Now()))
}

// A stranger's rules in a ClusterRole of the account can have the effect that it seems to be exceeded.
func TestWhatTheAPIServerAllowsStopsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.given(weak, settled, passing(excess.DefaultGrace), func(w *world) { w.Allow("*") }, settled)
	w.Delete(deploymentOf("demo"))
	got := w.settle()
	require.Positive(t, w.r.excess.Paused(w.at(), w.clock.Now()))
	require.Equal(t, phasePending, got.phase, "not Succeeded")
	require.Equal(t, w.r.excess.Paused(w.at(), w.clock.Now()), got.after, "what has changed is examined after the pause")
}
