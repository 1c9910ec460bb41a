package excess

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
		"the API server cannot decide":       {allowed: []string{"get secrets"}, undecided: "get pods"},
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
			got, _, err := Account{}.Confirm(t.Context(), ask, rbac.Subject{}, []Object{both})
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
	got, _, err := Account{}.Confirm(t.Context(), ask, rbac.Subject{}, []Object{o, o})
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
	got := account.Batch(found)
	require.Len(t, got, maxRemoved)
	for i := range maxRemoved / 2 {
		require.Equal(t, i < 11, got[i].Object.GetNamespace() == "t1")
	}
}

// Any number of objects can be such that they are not removed. Other attempts examine others, so that each has its turn.
func TestABatchContainsOtherObjectsEachTime(t *testing.T) {
	t.Parallel()
	account := Account{Granted: func(namespace string) rbac.Permissions { return rbac.Permissions{Namespace: namespace} }}
	for _, n := range []int{1, maxRemoved, maxRemoved + 1, 3*maxRemoved - 1} {
		var found []Object
		for i := range n {
			found = append(found, Object{Object: &rbacv1.RoleBinding{ObjectMeta: meta("t1", fmt.Sprint(i))}})
		}
		examined := map[string]bool{}
		for range 100 {
			batch := account.Batch(found)
			require.Len(t, batch, min(n, maxRemoved))
			require.Equal(t, "0", batch[0].Object.GetName())
			once := map[string]bool{}
			for _, o := range batch {
				once[o.Object.GetName()], examined[o.Object.GetName()] = true, true
			}
			require.Len(t, once, len(batch))
		}
		require.Len(t, examined, n)
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
	require.Equal(t, "more", account.Batch(found)[0].Object.GetName())
}

// Who may update what Remit has created can make it large, without having its permissions.
func TestLargeObjectsAreReadInParts(t *testing.T) {
	t.Parallel()
	live := stored{}
	var cached []Object
	for i := range 20 {
		binding := &rbacv1.RoleBinding{ObjectMeta: meta("t1", fmt.Sprint(i))}
		binding.UID, binding.ManagedFields = types.UID(fmt.Sprint(i)), []metav1.ManagedFieldsEntry{{Manager: "x"}}
		binding.Finalizers = []string{strings.Repeat("f", 1<<20)}
		live[binding.Name] = binding
		cached = append(cached, Object{Object: &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: binding.Name, UID: binding.UID}}})
	}
	all := func(client.Object) bool { return true }
	seen := map[string]bool{}
	for range 200 {
		objs, read, err := Reread(t.Context(), live, all, cached)
		require.NoError(t, err)
		require.Len(t, objs, maxRead>>20-1)
		require.Equal(t, len(objs), read)
		require.Empty(t, objs[0].GetManagedFields())
		require.True(t, slices.IsSortedFunc(objs, func(x, y client.Object) int { return number(t, x) - number(t, y) }))
		for _, o := range objs {
			seen[o.GetName()] = true
		}
	}
	require.Len(t, seen, len(cached), "each is read in its turn")

	objs, read, err := Reread(t.Context(), live, func(client.Object) bool { return false }, cached)
	require.NoError(t, err)
	require.Empty(t, objs)
	require.Less(t, read, len(cached))
}

// stored reads RoleBindings, which fake clients take a long time for if they are large.
type stored map[string]*rbacv1.RoleBinding

func (s stored) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s[key.Name].DeepCopyInto(obj.(*rbacv1.RoleBinding)) //nolint:forcetypeassert // There are no others.
	return nil
}

func (stored) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func number(t *testing.T, obj client.Object) int {
	t.Helper()
	n, err := strconv.Atoi(obj.GetName())
	require.NoError(t, err)
	return n
}

// What the cache shows and the API server does not has been examined.
func TestExaminedSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	granting := func(n int) (live []client.Object, cached []Object) {
		for i := range n {
			pair := granted(t, "t1", fmt.Sprint(i), may("get", "secrets"))
			for _, o := range pair {
				o.SetResourceVersion("")
				o.SetUID(types.UID(fmt.Sprintf("%T %d", o, i)))
			}
			live = append(live, pair...)
			binding := pair[1]
			cached = append(cached, Object{Object: &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: binding.GetName(), UID: binding.GetUID()}}})
		}
		return live, cached
	}
	has := Account{Granted: func(namespace string) rbac.Permissions {
		return rbac.Permissions{Namespace: namespace, Rules: []rbacv1.PolicyRule{may("get", "secrets")}}
	}}
	lacks := Account{Granted: func(namespace string) rbac.Permissions { return rbac.Permissions{Namespace: namespace} }}
	for name, row := range map[string]struct {
		account                Account
		n, gone                int
		denies                 bool
		found, confirmed       int
		isOutdated, isComplete bool
	}{
		"all are confirmed":     {account: lacks, n: 3, denies: true, found: 3, confirmed: 3, isComplete: true},
		"all are allowed":       {account: lacks, n: 3, found: 3, isComplete: true},
		"none exceeds it":       {account: has, n: 3, isOutdated: true, isComplete: true},
		"one does not exist":    {account: lacks, n: 3, gone: 1, denies: true, found: 2, confirmed: 2, isOutdated: true, isComplete: true},
		"more than a batch":     {account: lacks, n: maxRemoved + 1, found: maxRemoved},
		"more than a batch has": {account: has, n: maxRemoved + 1, isOutdated: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objs, cached := granting(row.n)
			live := fake.NewClientBuilder().WithObjects(objs[2*row.gone:]...).Build()
			row.account.RulesOf = LiveRules(t.Context(), live)
			bounds := Bounds{accounts: []Account{row.account}, subjects: []rbac.Subject{{}}}
			is, err := bounds.Examine(t.Context(), live, func(client.Object) bool { return true },
				func(context.Context, rbac.Subject, string, rbacv1.PolicyRule) (bool, error) { return !row.denies, nil }, cached)
			require.NoError(t, err)
			require.Len(t, is.Found, row.found)
			require.Len(t, is.Confirmed, row.confirmed)
			require.Equal(t, row.isOutdated, is.IsOutdated)
			require.Equal(t, row.isComplete, is.IsComplete)
			require.Equal(t, row.isComplete, is.Kept("account") == kept("account"))
		})
	}
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

// Users could otherwise have an object reported as removed, and the attempt repeated at once, for as long as they change it.
func TestWhatChangesIsNotRemoved(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(rbacv1.Resource("rolebindings"), "b", errors.New("changed"))
	own := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return conflict },
	})
	objs := []Object{{Object: &rbacv1.RoleBinding{ObjectMeta: meta("t1", "b")}}}
	remain, why, err := Delete(t.Context(), own, objs, func(client.Object) { t.Error("removed") })
	require.NoError(t, err)
	require.Equal(t, objs, remain)
	require.ErrorIs(t, why, conflict)
}
