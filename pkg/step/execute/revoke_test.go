package execute

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// unanswered is a Role whose rules were written, on an API server that does not list RoleBindings and does not remove the rules.
type unanswered struct {
	roles      Roles
	role, live *unstructured.Unstructured
	client     client.Client
	// refusals is the number of attempts to remove the rules that fail, and attempts contains the times of all.
	refusals int
	attempts []time.Duration
	lists    int
	answers  bool
}

func newUnanswered(t *testing.T) *unanswered {
	t.Helper()
	index := func() toolscache.Indexer {
		return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	role := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
		"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}}}
	role.SetNamespace("target")
	role.SetName(t.Name())
	role.SetLabels(map[string]string{names.LabelPermissionsHash: "x"})
	u := &unanswered{role: role, live: role.DeepCopy()}
	u.live.SetUID("1")
	u.live.SetResourceVersion("1")
	begin := time.Now()
	u.client = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return errors.New("unavailable")
		},
		Patch: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
			require.NoError(t, ctx.Err(), "the time for the list is not that for the removal")
			u.attempts = append(u.attempts, time.Since(begin))
			if len(u.attempts) <= u.refusals {
				return apierrors.NewInternalError(errors.New("unavailable"))
			}
			return nil
		},
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			text, err := u.live.MarshalJSON()
			require.NoError(t, err)
			return obj.(json.Unmarshaler).UnmarshalJSON(text)
		},
		List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
			if u.lists++; u.answers {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		},
	})
	u.roles = Roles{Live: u.client, Owner: ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: "operators"}, CSV: "p.v1"}, RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(index()), ClusterRoles: rbacv1listers.NewClusterRoleLister(index()),
		RoleBindings: rbacv1listers.NewRoleBindingLister(index()), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(index()),
	}}
	return u
}

func (u *unanswered) confirm(ctx context.Context) error {
	return u.roles.confirm(ctx, u.client, nil, u.role, outcome{written: u.live})
}

// At first, the list and all attempts to remove the rules had the same 30 seconds.
func TestTheRemovalOfRulesHasItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnanswered(t)
		u.refusals = 2
		err := u.confirm(t.Context())
		require.ErrorContains(t, err, "list RoleBindings")
		require.True(t, Occupies(err), "it affects only the target: %v", err)
		require.NotContains(t, err.Error(), "could not be removed")
		require.Equal(t, []time.Duration{30 * time.Second, 32 * time.Second, 36 * time.Second}, u.attempts)
		require.False(t, IsUnconfirmed(u.live, "Role"))
	})
}

// A Role that has its rules is not checked again, unless it is remembered.
func TestARoleThatKeepsItsRulesIsConfirmedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnanswered(t)
		u.refusals = 100
		err := u.confirm(t.Context())
		var remaining *RemainingError
		require.ErrorAs(t, err, &remaining)
		require.ErrorContains(t, err, "the rules of Role target/"+t.Name()+" could not be removed again")
		require.Len(t, u.attempts, maxRevocations)
		require.True(t, IsUnconfirmed(u.live, "Role"))
		require.False(t, IsUnconfirmed(u.live, "RoleBinding"))
		other := u.live.DeepCopy()
		other.SetUID("2")
		require.False(t, IsUnconfirmed(other, "Role"), "the Role was replaced")

		write := func(live *unstructured.Unstructured) (*unstructured.Unstructured, error) { return live, nil }
		require.Error(t, u.roles.guard(t.Context(), u.client, u.live, u.role, write))
		require.True(t, IsUnconfirmed(u.live, "Role"))
		u.answers = true
		require.NoError(t, u.roles.guard(t.Context(), u.client, u.live, u.role, write))
		require.False(t, IsUnconfirmed(u.live, "Role"))
		lists := u.lists
		require.NoError(t, u.roles.guard(t.Context(), u.client, u.live, u.role, write))
		require.Equal(t, lists, u.lists, "a confirmed Role is not checked")
	})
}

// The API server fails before it stores the rules, and while they are removed.
func TestRulesThatWereNotWrittenNeedNotBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnanswered(t)
		u.refusals = 100
		u.live.Object["rules"] = []any{}
		unavailable := apierrors.NewInternalError(errors.New("unavailable"))
		require.Equal(t, error(unavailable), u.roles.confirm(t.Context(), u.client, u.live, u.role, outcome{err: unavailable}))
		require.True(t, IsUnconfirmed(u.live, "Role"), "the write may be stored later")
	})
}

func TestTheNumberOfUnconfirmedRolesIsLimited(t *testing.T) {
	t.Parallel()
	var u unconfirmed
	u.roles = map[types.NamespacedName]types.UID{}
	for i := range maxUnconfirmed {
		u.roles[types.NamespacedName{Name: string(rune('a' + i))}] = ""
	}
	role := &unstructured.Unstructured{Object: map[string]any{}}
	role.SetName("one more")
	u.remember(role, nil)
	require.Len(t, u.roles, maxUnconfirmed)
	require.True(t, u.has(role))
}

func TestCrowdedTargetsAreWrittenLast(t *testing.T) {
	t.Parallel()
	u := newUnanswered(t)
	index := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	for i := range crowded + 1 {
		require.NoError(t, index.Add(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: string(rune('a' + i))}}))
	}
	u.roles.RBAC.RoleBindings = rbacv1listers.NewRoleBindingLister(index)
	var objs []*unstructured.Unstructured
	for _, namespace := range []string{"a", "b", "a", "operators"} {
		obj := u.role.DeepCopy()
		obj.SetNamespace(namespace)
		objs = append(objs, obj)
	}
	var order []string
	for _, obj := range u.roles.CrowdedLast(objs) {
		order = append(order, obj.GetNamespace())
	}
	require.Equal(t, []string{"b", "operators", "a", "a"}, order)
}
