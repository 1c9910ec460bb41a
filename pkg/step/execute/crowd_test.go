package execute_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// counting returns a reader that counts the lists.
func (s *sealing) counting(lists *int, list func(list *metav1.PartialObjectMetadataList)) client.Reader {
	return interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, out client.ObjectList, o ...client.ListOption) error {
			*lists++
			if list == nil {
				return c.List(ctx, out, o...)
			}
			list(out.(*metav1.PartialObjectMetadataList))
			return nil
		},
	})
}

// The administrator of a target can create any number of RoleBindings, which were listed three times for each Role.
func TestManyBindingsInATargetAffectOnlyThisTarget(t *testing.T) {
	s, lists := newTarget(t), 0
	s.roles.Live = s.counting(&lists, func(list *metav1.PartialObjectMetadataList) {
		list.Items = nil
		for i := range 25 {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: s.role.GetNamespace(), Name: fmt.Sprint("b", i)}})
		}
		list.Continue = "more"
	})
	err := s.ensure(s.client)
	require.True(t, execute.Occupies(err), "%v", err)
	require.ErrorContains(t, err, "there are more than 1000")
	require.LessOrEqual(t, lists, 40)
	require.True(t, apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(s.role), &rbacv1.Role{})))
}

// While the RoleBindings are listed, a binding of a Role that was not sealed is in effect.
func TestARoleThatCannotBeSealedIsNotFilledAmongManyBindings(t *testing.T) {
	s := newTarget(t)
	account := s.user("account", admins, named, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	cached := newIndex()
	for i := range 101 {
		require.NoError(t, cached.Add(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.role.GetNamespace(), Name: fmt.Sprint("b", i)}}))
	}
	s.roles.RBAC.RoleBindings = rbacv1listers.NewRoleBindingLister(cached)
	for _, rules := range []int{2, 1} { // with one that can be sealed, and without
		s.role.SetName(fmt.Sprint("r", rules))
		s.role.Object["rules"] = s.role.Object["rules"].([]any)[2-rules:]
		err := s.ensure(account)
		require.True(t, execute.Occupies(err), "%v", err)
		require.ErrorContains(t, err, "there are more than 100,")
		live := &rbacv1.Role{}
		require.NoError(t, client.IgnoreNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(s.role), live)))
		require.Empty(t, live.Rules, "it was not sealed")
	}
	require.NoError(t, cached.Replace(nil, ""))
	s.role.SetName("r3")
	require.NoError(t, s.ensure(account))
}

// Each binding that the cache does not have is read with a request of its own. A user who changes 100 of them prolongs the time in which a Role
// that was not sealed can be bound.
func TestFewBindingsMayChangeBesideARoleThatCannotBeSealed(t *testing.T) {
	s, reads := newTarget(t), 0
	s.roles.Live = interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			if _, isBinding := obj.(*rbacv1.RoleBinding); isBinding {
				reads++
			}
			return c.Get(ctx, key, obj, o...)
		},
	})
	account := s.user("account", admins, named, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	for i := range 20 {
		b := s.theirs.DeepCopy()
		b.Name, b.RoleRef.Name = fmt.Sprint("b", i), "other"
		require.NoError(t, s.client.Create(t.Context(), b))
	}
	require.NoError(t, s.ensure(s.user("wide", admins, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "secrets"}, Verbs: []string{"get"}})))
	s.role.SetName("partly")
	reads = 0
	err := s.ensure(account)
	require.True(t, execute.Occupies(err), "%v", err)
	require.ErrorContains(t, err, "they change too fast")
	live := &rbacv1.Role{}
	require.NoError(t, client.IgnoreNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(s.role), live)))
	require.Empty(t, live.Rules)
	require.LessOrEqual(t, reads, 22+6, "those before the attempt to seal the whole Role, and then a few")
}

func TestAFailedListInATargetAffectsOnlyThisTarget(t *testing.T) {
	s := newTarget(t)
	s.unlisted = errors.New("too many requests")
	s.roles.Live = s.listingUnless()
	err := s.ensure(s.client)
	require.True(t, execute.Occupies(err), "%v", err)
	require.ErrorContains(t, err, "too many requests")
	require.True(t, apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(s.role), &rbacv1.Role{})))
}

// Before a Role is sealed, an earlier list of the same reconcile is sufficient.
func TestTheBindingsOfATargetAreListedOnceForItsRoles(t *testing.T) {
	s, lists := newTarget(t), 0
	s.roles.Live, s.roles.Checked = s.counting(&lists, nil), &execute.Checked{}
	require.NoError(t, s.ensure(s.client))
	require.Equal(t, 3, lists)
	s.role.SetName("second")
	require.NoError(t, s.ensure(s.client))
	require.Equal(t, 3+2, lists, "after the seal and after the rules, the bindings are listed again")
}

// The answer to a creation is lost, and another user has replaced the Role.
func TestRulesOfAnotherUsersRoleAreNotRemoved(t *testing.T) {
	s := newTarget(t)
	s.stranger = s.user("stranger", admins)
	s.role.Object["rules"] = s.role.Object["rules"].([]any)[1:]
	theirs := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.role.GetNamespace(), Name: s.role.GetName(), Finalizers: []string{"example.com/kept"}},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"get"}}}}
	err := s.ensure(s.around(s.user("account", admins, named), nil, func() error {
		require.NoError(t, s.client.Delete(t.Context(), s.live()))
		require.NoError(t, s.stranger.Create(t.Context(), theirs))
		return errors.New("connection reset by peer")
	}))
	require.ErrorContains(t, err, "connection reset by peer")
	require.Equal(t, theirs.ResourceVersion, s.live().ResourceVersion)
}

// The API server stores the Role after the program has not found it.
func TestARoleThatIsStoredLaterIsConfirmed(t *testing.T) {
	s := newTarget(t)
	s.role.Object["rules"] = s.role.Object["rules"].([]any)[1:]
	account := s.user("account", admins, named)
	err := s.ensure(s.around(account, nil, func() error {
		require.NoError(t, s.client.Delete(t.Context(), s.live()))
		return errors.New("connection reset by peer")
	}))
	require.ErrorContains(t, err, "connection reset by peer")
	_, _, err = apply.From(t.Context(), account, nil, s.role, s.roles.Owner)
	require.NoError(t, err)
	require.True(t, execute.IsUnconfirmed(s.live(), "Role"))
	require.NoError(t, s.client.Create(t.Context(), s.theirs))
	_, _, err = s.roles.Ensure(t.Context(), account, s.role) // the cache contains the Role by now
	require.True(t, apply.IsCollision(err), "%v", err)
	require.Empty(t, s.live().Rules)
	require.False(t, execute.IsUnconfirmed(s.live(), "Role"))
}
