package excess

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
)

func may(verb, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{names.LabelPermissionsHash: "x"}}
}

// granted returns a role and a binding with the same name.
func granted(t *testing.T, namespace, name string, rules ...rbacv1.PolicyRule) []client.Object {
	t.Helper()
	role, binding := rbac.RoleAndBinding(meta(namespace, name), rules)
	r, ok := role.(client.Object)
	require.True(t, ok)
	b, ok := binding.(client.Object)
	require.True(t, ok)
	return []client.Object{r, b}
}

func TestFindsWhatTheAccountMayNotWrite(t *testing.T) {
	t.Parallel()
	pods, bind := may("get", "pods"), func(verb, kind, name string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{kind}, ResourceNames: []string{name}, Verbs: []string{verb}}
	}
	unlabeled := func(objs []client.Object) []client.Object {
		for _, obj := range objs {
			obj.SetLabels(nil)
		}
		return objs
	}
	second := &rbacv1.RoleBinding{ObjectMeta: meta("other", "b"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "a"}}
	for _, row := range []struct {
		name    string
		objs    []client.Object
		account map[string][]rbacv1.PolicyRule // by namespace
		want    []string
	}{
		{name: "nothing that is covered", objs: granted(t, "t1", "a", pods), account: map[string][]rbacv1.PolicyRule{"t1": {pods}}},
		{name: "a role and its binding", objs: granted(t, "t1", "a", pods), want: []string{"RoleBinding t1/a", "Role t1/a"}},
		{name: "cluster-wide permissions of an account of one namespace", objs: granted(t, "", "a", pods), account: map[string][]rbacv1.PolicyRule{"t1": {pods}},
			want: []string{"ClusterRoleBinding a", "ClusterRole a"}},
		{name: "no binding of a role that does not exist", objs: granted(t, "t1", "a", pods)[1:]},
		{name: "no permissions, no excess", objs: granted(t, "t1", "a")},
		{name: "nothing that the account may grant", objs: granted(t, "t1", "a", pods),
			account: map[string][]rbacv1.PolicyRule{"t1": {bind("bind", "roles", "a"), bind("escalate", "roles", "a")}}},
		{name: "the binding, if the account may only write the role", objs: granted(t, "t1", "a", pods),
			account: map[string][]rbacv1.PolicyRule{"t1": {bind("escalate", "roles", "a")}}, want: []string{"RoleBinding t1/a"}},
		{name: "no role of the bundle, which grants nothing alone", objs: unlabeled(granted(t, "t1", "a", pods)), want: []string{"RoleBinding t1/a"}},
		{name: "no role that a covered binding needs", objs: append(granted(t, "", "a", pods), second), account: map[string][]rbacv1.PolicyRule{"other": {pods}},
			want: []string{"ClusterRoleBinding a"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := Account{
				RulesOf: func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
					for _, obj := range row.objs {
						if role, kind := roleOf(obj); role != nil && keyOf(kind, role.Namespace, role.Name) == keyOf(ref.Kind, namespace, ref.Name) {
							return role.Rules, nil
						}
					}
					return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), ref.Name)
				},
				Granted: func(namespace string) rbac.Permissions {
					return rbac.Permissions{Namespace: namespace, Rules: row.account[namespace]}
				},
			}.Find(row.objs)
			require.NoError(t, err)
			var described []string
			for _, o := range got {
				require.Equal(t, []rbacv1.PolicyRule{pods}, o.Missing)
				described = append(described, apply.Describe(o.Object))
			}
			require.Equal(t, row.want, described)
		})
	}
}

func TestTheAPIServerConfirmsAnExcess(t *testing.T) {
	t.Parallel()
	both := Object{Object: &rbacv1.Role{}, Scope: "t1", Missing: []rbacv1.PolicyRule{may("get", "pods"), may("get", "secrets")}, Alternative: may("escalate", "roles")}
	for name, row := range map[string]struct {
		allowed   []string
		undecided string
		want      int
	}{
		"a permission is denied":             {want: 1},
		"one of two permissions is denied":   {allowed: []string{"get pods"}, want: 1},
		"all permissions are allowed":        {allowed: []string{"get pods", "get secrets"}},
		"the alternative is allowed":         {allowed: []string{"escalate roles"}},
		"the API server cannot decide":       {undecided: "get pods"},
		"the alternative cannot be reviewed": {undecided: "escalate roles"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ask := func(_ context.Context, _ rbac.Subject, namespace string, atom rbacv1.PolicyRule) (bool, error) {
				require.Equal(t, "t1", namespace)
				question := atom.Verbs[0] + " " + atom.Resources[0]
				if question == row.undecided {
					return false, errors.New("no answer")
				}
				for _, a := range row.allowed {
					if a == question {
						return true, nil
					}
				}
				return false, nil
			}
			got, err := Account{}.Confirm(t.Context(), ask, rbac.Subject{}, []Object{both})
			require.Equal(t, row.undecided != "", err != nil)
			require.Len(t, got, row.want)
		})
	}
}

func TestAQuestionIsAskedOnceAndTheNumberIsLimited(t *testing.T) {
	t.Parallel()
	asked := 0
	ask := func(context.Context, rbac.Subject, string, rbacv1.PolicyRule) (bool, error) {
		asked++
		return asked > 1, nil
	}
	rule := may("get", "pods")
	for range 2 * maxReviews {
		rule.Resources = append(rule.Resources, "r"+string(rune('a'+len(rule.Resources)%26))+time.Duration(len(rule.Resources)).String())
	}
	o := Object{Object: &rbacv1.Role{}, Missing: []rbacv1.PolicyRule{rule}, Alternative: may("escalate", "roles")}
	got, err := Account{}.Confirm(t.Context(), ask, rbac.Subject{}, []Object{o, o})
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, maxReviews, asked)
}

func TestTheGracePeriod(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		reported time.Time
		grace    time.Duration
		want     time.Duration
	}{
		"begins with the first report":                           {grace: 10 * time.Minute, want: 10 * time.Minute},
		"continues after a restart":                              {reported: now.Add(-4 * time.Minute), grace: 10 * time.Minute, want: 6 * time.Minute},
		"ends only after this process has observed the excess":   {reported: now.Add(-time.Hour), grace: 10 * time.Minute, want: time.Minute},
		"may be shorter than that":                               {reported: now.Add(-time.Hour), grace: time.Second, want: time.Second},
		"cannot be extended by a status that claims a later one": {reported: now.Add(time.Hour), grace: 10 * time.Minute, want: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var timers Timers[string]
			require.Equal(t, now.Add(row.want), timers.Deadline("x", now, row.reported, row.grace))
			later := now.Add(time.Second)
			require.Equal(t, now.Add(row.want), timers.Deadline("x", later, time.Time{}, row.grace), "a running grace period does not begin again")
			require.Equal(t, now.Add(row.want), timers.Deadline("x", later, now.Add(-time.Hour), row.grace), "a later status does not end it")
			timers.Stop("x")
			require.Equal(t, later.Add(row.grace), timers.Deadline("x", later, time.Time{}, row.grace))
		})
	}
}

func TestABatchIsLimitedAndBeginsWithWhatTheAccountMayDelete(t *testing.T) {
	t.Parallel()
	var found []Object
	for i := range maxRemoved + 10 {
		namespace := "other"
		if i%10 == 0 {
			namespace = "t1"
		}
		found = append(found, Object{Object: &rbacv1.RoleBinding{ObjectMeta: meta(namespace, "b")}})
	}
	account := Account{Granted: func(namespace string) rbac.Permissions {
		out := rbac.Permissions{Namespace: namespace}
		if namespace == "t1" {
			out.Rules = []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"delete"}}}
		}
		return out
	}}
	got := account.Batch(found, 0)
	require.Len(t, got, maxRemoved)
	for i := range got {
		require.Equal(t, i < 11, got[i].Object.GetNamespace() == "t1")
	}
}

// Any number of objects can be such that they are not removed. The next attempt examines others, and each of them has its turn.
func TestABatchBeginsAfterTheOneThatRemovedNothing(t *testing.T) {
	t.Parallel()
	account := Account{Granted: func(namespace string) rbac.Permissions { return rbac.Permissions{Namespace: namespace} }}
	for _, n := range []int{1, maxRemoved, maxRemoved + 1, 3*maxRemoved - 1} {
		var found []Object
		for i := range n {
			found = append(found, Object{Object: &rbacv1.RoleBinding{ObjectMeta: meta("t1", fmt.Sprint(i))}})
		}
		var timers Timers[string]
		examined := map[string]bool{}
		for range 3 {
			batch := account.Batch(found, timers.Turn("x"))
			require.Len(t, batch, min(n, maxRemoved))
			for _, o := range batch {
				examined[o.Object.GetName()] = true
			}
			timers.Pause("x", time.Now())
		}
		require.Len(t, examined, n)
		timers.Stop("x")
		require.Zero(t, timers.Turn("x"))
	}
}

// Users who may update a binding can add finalizers, which keep it, to any number of them.
func TestABatchBeginsWithWhatIsNotBeingDeleted(t *testing.T) {
	t.Parallel()
	var found []Object
	for range maxRemoved {
		binding := &rbacv1.RoleBinding{ObjectMeta: meta("t1", "kept")}
		binding.DeletionTimestamp = new(metav1.Now())
		found = append(found, Object{Object: binding})
	}
	found = append(found, Object{Object: &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "more")}})
	account := Account{Granted: func(namespace string) rbac.Permissions {
		return rbac.Permissions{Namespace: namespace, Rules: []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"delete"}}}}
	}}
	require.Equal(t, "more", account.Batch(found, 0)[0].Object.GetName())
}

// Who may update what Remit has created can make it large, without having its permissions.
func TestLargeObjectsAreReadInParts(t *testing.T) {
	t.Parallel()
	var objs []client.Object
	var cached []Object
	for i := range 20 {
		binding := &rbacv1.RoleBinding{ObjectMeta: meta("t1", fmt.Sprint(i))}
		binding.UID, binding.ManagedFields = types.UID(fmt.Sprint(i)), []metav1.ManagedFieldsEntry{{
			Manager: "x", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "rbac.authorization.k8s.io/v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte("{}")},
		}}
		binding.Finalizers = []string{strings.Repeat("f", 1<<20)}
		objs = append(objs, binding)
		cached = append(cached, Object{Object: &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: binding.Name, UID: binding.UID}}})
	}
	live := fake.NewClientBuilder().WithObjects(objs...).Build()
	all := func(client.Object) bool { return true }
	read, err := Reread(t.Context(), live, all, cached)
	require.NoError(t, err)
	require.Len(t, read, maxRead>>20-1)
	require.Empty(t, read[0].GetManagedFields())
	read, err = Reread(t.Context(), live, func(o client.Object) bool { return o.GetName() == "19" }, cached)
	require.NoError(t, err)
	require.Len(t, read, 1)
}

func TestAttemptsThatRemoveNothingArePaused(t *testing.T) {
	t.Parallel()
	var timers Timers[string]
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	require.Zero(t, timers.Paused("x", now))
	for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 2 * time.Minute, 2 * time.Minute} {
		timers.Pause("x", now)
		require.Equal(t, pause, timers.Paused("x", now))
		require.Zero(t, timers.Paused("x", now.Add(pause)))
	}
	for range 100 {
		timers.Pause("x", now)
	}
	require.Equal(t, lastPause, timers.Paused("x", now))
	timers.Stop("x")
	require.Zero(t, timers.Paused("x", now))
	timers.Pause("x", now)
	require.Equal(t, firstPause, timers.Paused("x", now))
}
