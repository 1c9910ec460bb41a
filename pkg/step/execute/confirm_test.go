package execute_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// newTarget is like newSealing, but the namespace is a target of an operator in another namespace, and the Role does not exist.
func newTarget(t *testing.T) *sealing {
	t.Helper()
	s := newSealing(t)
	require.NoError(t, s.client.Delete(t.Context(), s.live()))
	s.roles.Owner.Namespace = "operators"
	labels := s.roles.Owner.Labels()
	labels[names.LabelPermissionsHash] = "x"
	s.role.SetLabels(labels)
	return s
}

// user returns a client of a user who has some permissions in the namespace.
func (s *sealing) user(name string, rules ...rbacv1.PolicyRule) client.WithWatch {
	s.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.role.GetNamespace(), Name: name}, Rules: rules}
	require.NoError(s.t, s.client.Create(s.t.Context(), role))
	require.NoError(s.t, s.client.Create(s.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}))
	config := rest.CopyConfig(controlplane.Shared(s.t).Config())
	config.Impersonate.UserName = name
	c, err := client.NewWithWatch(config, client.Options{})
	require.NoError(s.t, err)
	require.EventuallyWithT(s.t, func(t *assert.CollectT) {
		require.NoError(t, c.List(s.t.Context(), &rbacv1.RoleList{}, client.InNamespace(role.Namespace)))
	}, time.Minute, 10*time.Millisecond)
	return c
}

var (
	pods   = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}
	named  = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"s"}}
	admins = rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"get", "list", "create", "update", "patch", "delete"}}
)

// around returns a client that calls before and after around the write of the Role's rules. An error of after replaces the response.
func (s *sealing) around(account client.WithWatch, before func(), after func() error) client.WithWatch {
	return interceptor.NewClient(account, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			raw, err := json.Marshal(obj)
			require.NoError(s.t, err)
			if strings.Contains(string(raw), "remit/sealed:") || !strings.Contains(string(raw), `"verbs"`) || len((&client.ApplyOptions{}).ApplyOptions(opts).DryRun) > 0 {
				return c.Apply(ctx, obj, opts...)
			}
			if before != nil {
				before()
			}
			if err := c.Apply(ctx, obj, opts...); err != nil || after == nil {
				return err
			}
			return after()
		},
	})
}

// listingUnless returns a reader whose List returns s.unlisted if it is not nil.
func (s *sealing) listingUnless() client.Reader {
	return interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if s.unlisted != nil {
				return s.unlisted
			}
			return c.List(ctx, list, o...)
		},
	})
}

// tamper claims the rules for another field manager, which a user who may write Roles can do without the permissions in the Role.
func (s *sealing) tamper() {
	s.t.Helper()
	role := &rbacv1.Role{}
	require.NoError(s.t, s.stranger.Get(s.t.Context(), client.ObjectKeyFromObject(s.role), role))
	role.Finalizers = []string{"example.com/kept"}
	role.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "stranger", Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: "rbac.authorization.k8s.io/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:rules":{}}`)}}
	require.NoError(s.t, s.stranger.Update(s.t.Context(), role))
}

// grantsNothing requires that the Role exists, but has none of its rules.
func (s *sealing) grantsNothing() {
	s.t.Helper()
	for _, rule := range s.live().Rules {
		require.Len(s.t, rule.ResourceNames, 1)
		require.Contains(s.t, rule.ResourceNames[0], "remit/sealed:")
	}
}

// do writes the Role like an InstallPlan of a later version or a ClusterExtension.
func (s *sealing) do(account client.Client) error {
	s.t.Helper()
	executor := &execute.Executor{Account: account, Facts: s.roles.Live, Cluster: s.client, RBAC: s.roles.RBAC}
	states, err := executor.Gather(s.t.Context(), []step.Step{{Object: s.role, Owner: s.roles.Owner}})
	require.NoError(s.t, err)
	require.NoError(s.t, states[0].Problem, "the cache does not contain the binding yet")
	_, err = executor.Do(s.t.Context(), states[0])
	return err
}

func (s *sealing) ensure(account client.Client) error {
	_, _, err := s.roles.EnsureUncached(s.t.Context(), account, s.role)
	return err
}

// A user of the target has created, bound and deleted a Role with the name of the operator's. The cache does not contain the binding.
func TestABindingInATargetPrecedesNoRole(t *testing.T) {
	for name, write := range map[string]func(*sealing, client.Client) error{"csv": (*sealing).ensure, "plan": (*sealing).do} {
		t.Run(name, func(t *testing.T) {
			s := newTarget(t)
			require.NoError(t, s.client.Create(t.Context(), s.theirs))
			err := write(s, s.client)
			require.True(t, apply.IsCollision(err), "%v", err)
			require.ErrorContains(t, err, "a RoleBinding in namespace "+s.theirs.Namespace+" already exists")
			require.True(t, apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(s.role), &rbacv1.Role{})))

			require.NoError(t, s.client.Delete(t.Context(), s.theirs))
			require.NoError(t, write(s, s.client))
			require.Len(t, s.live().Rules, 2)
		})
	}
}

// A user who has all permissions except those for a name can bind the sealed Role.
func TestABindingOfASealedRoleIsFound(t *testing.T) {
	for name, write := range map[string]func(*sealing, client.Client) error{"csv": (*sealing).ensure, "plan": (*sealing).do} {
		t.Run(name, func(t *testing.T) {
			s := newTarget(t)
			account, stranger := s.user("account", admins, pods, named), s.user("stranger", admins, pods)
			err := write(s, s.around(account, func() {
				sealed := s.live().Rules
				require.Len(t, sealed, 1, "the account may not write a rule for another name")
				require.Contains(t, sealed[0].ResourceNames[0], "remit/sealed:")
				require.NoError(t, stranger.Create(t.Context(), s.theirs))
			}, nil))
			require.True(t, apply.IsCollision(err), "%v", err)
			s.grantsNothing()

			require.NoError(t, s.client.Delete(t.Context(), s.theirs))
			s.clock.Step(time.Minute)
			require.NoError(t, s.ensure(account), "the rules are restored when the binding has been deleted")
			require.Len(t, s.live().Rules, 2)
		})
	}
}

// Rules with resource names cannot be sealed if the account has no other permissions.
func TestABindingOfARoleThatCannotBeSealedIsFound(t *testing.T) {
	s := newTarget(t)
	s.role.Object["rules"] = s.role.Object["rules"].([]any)[1:]
	account := s.user("account", admins, named)
	err := s.ensure(s.around(account, func() { require.NoError(t, s.client.Create(t.Context(), s.theirs)) }, nil))
	require.True(t, apply.IsCollision(err), "%v", err)
	require.Empty(t, s.live().Rules)

	require.NoError(t, s.client.Delete(t.Context(), s.theirs))
	require.NoError(t, s.ensure(account))
	require.Len(t, s.live().Rules, 1)
}

// A Role that has its rules is not checked again, so that its rules must not remain if its bindings were not confirmed.
func TestRulesThatWereNotConfirmedAreRemoved(t *testing.T) {
	lost := errors.New("connection reset by peer")
	for _, row := range []struct {
		name  string
		named bool // the Role cannot be sealed
		after func(s *sealing, stop func()) error
		want  string
	}{
		{"the bindings cannot be listed", false, func(s *sealing, _ func()) error {
			s.unlisted = errors.New("too many requests")
			return nil
		}, "too many requests"},
		{"the program stops", false, func(s *sealing, stop func()) error {
			require.NoError(s.t, s.client.Create(s.t.Context(), s.theirs))
			stop()
			return nil
		}, "a RoleBinding in namespace"},
		{"the answer is lost", false, func(*sealing, func()) error { return lost }, lost.Error()},
		{"the answer to the creation is lost", true, func(*sealing, func()) error { return lost }, lost.Error()},
		{"the API server reports an internal error", false, func(*sealing, func()) error { return apierrors.NewInternalError(lost) }, lost.Error()},
		{"another user changes the Role", false, func(s *sealing, _ func()) error {
			require.NoError(s.t, s.client.Create(s.t.Context(), s.theirs))
			s.tamper()
			return nil
		}, "a RoleBinding in namespace"},
		{"another user replaces the Role", false, func(s *sealing, _ func()) error {
			require.NoError(s.t, s.client.Create(s.t.Context(), s.theirs))
			role := s.live()
			require.NoError(s.t, s.stranger.Delete(s.t.Context(), role))
			require.NoError(s.t, s.stranger.Create(s.t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: role.Name, Labels: map[string]string{"theirs": ""}}}))
			return nil
		}, "a RoleBinding in namespace"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newTarget(t)
			s.stranger = s.user("stranger", admins)
			account := s.user("account", admins, pods, named)
			if row.named {
				s.role.Object["rules"] = s.role.Object["rules"].([]any)[1:]
			}
			s.roles.Live = s.listingUnless()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			_, _, err := s.roles.EnsureUncached(ctx, s.around(account, nil, func() error { return row.after(s, stop) }), s.role)
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), "could not be removed")
			s.grantsNothing()
			require.Equal(t, s.live().Labels["theirs"] == "" && s.live().Labels[names.LabelLineage] == "", row.name == "another user replaces the Role", "a Role of another user is not changed")
		})
	}
}
