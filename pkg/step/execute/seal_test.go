package execute_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/proofs"
)

// nothingCached returns listers of an empty cache.
func nothingCached() rbac.Listers {
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(newIndex()), ClusterRoles: rbacv1listers.NewClusterRoleLister(newIndex()),
		RoleBindings: rbacv1listers.NewRoleBindingLister(newIndex()), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(newIndex()),
	}
}

// newIndex returns an empty cache for objects of one kind.
func newIndex() toolscache.Indexer {
	return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
}

// sealing contains a namespace with an empty Role of an install, and the objects for restoring its rules.
type sealing struct {
	t      *testing.T
	client client.WithWatch
	clock  *testingclock.FakeClock
	roles  execute.Roles
	role   *unstructured.Unstructured // the desired state
	theirs *rbacv1.RoleBinding

	stranger client.Client
	unlisted error
}

func newSealing(t *testing.T) *sealing {
	t.Helper()
	c, err := client.NewWithWatch(controlplane.Shared(t).Config(), client.Options{})
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "seal-"}}
	require.NoError(t, c.Create(t.Context(), ns))
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: ns.Name}, CSV: "p.v1", Proofs: proofs.Keys()}
	role := func(rules ...any) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules}}
		out.SetNamespace(ns.Name)
		out.SetName("r")
		out.SetLabels(owner.Labels())
		return out
	}
	rule := map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}
	named := map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"get"}, "resourceNames": []any{"s"}}
	_, _, err = apply.Ensure(t.Context(), c, role(), owner)
	require.NoError(t, err)
	clock := testingclock.NewFakeClock(time.Now())
	return &sealing{
		t: t, client: c, clock: clock, role: role(rule, named), roles: execute.Roles{RBAC: nothingCached(), Owner: owner, Live: c, Clock: clock},
		theirs: &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "theirs"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "other"}}},
	}
}

func (s *sealing) live() *rbacv1.Role {
	s.t.Helper()
	live := &rbacv1.Role{}
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(s.role), live))
	return live
}

// listing returns a reader whose List returns err or, if err is nil, calls after when it is done.
func (s *sealing) listing(err error, after func()) client.Reader {
	return interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if err != nil {
				return err
			}
			defer after()
			return c.List(ctx, list, o...)
		},
	})
}

// refusing returns a client whose API server has an admission policy that rejects the wanted rules, optionally in dry
// runs as well.
func (s *sealing) refusing(dryRuns bool) client.Client {
	return interceptor.NewClient(s.client, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			raw, err := json.Marshal(obj)
			require.NoError(s.t, err)
			o := (&client.ApplyOptions{}).ApplyOptions(opts)
			if !strings.Contains(string(raw), "remit/sealed:") && (dryRuns || len(o.DryRun) == 0) {
				return errors.New("refused by a policy")
			}
			return c.Apply(ctx, obj, opts...)
		},
	})
}

// The cache may be outdated: another user may have just removed the rules of a role and bound it, and can do so until
// the role is sealed.
func TestARoleWithForeignBindingsIsNotFilled(t *testing.T) {
	s := newSealing(t)
	require.NoError(t, s.client.Create(t.Context(), s.theirs.DeepCopy()))
	_, _, err := s.roles.Ensure(t.Context(), s.client, s.role)
	require.True(t, apply.IsCollision(err), "%v", err)
	require.ErrorContains(t, err, "RoleBinding "+s.theirs.Namespace+"/theirs already exists and was not created by this install")
	require.Empty(t, s.live().Rules)

	late := s.roles
	late.Live = s.listing(nil, func() {
		require.NoError(t, client.IgnoreAlreadyExists(s.client.Create(t.Context(), s.theirs.DeepCopy())))
	})
	seals := map[string]bool{}
	for range 2 {
		require.NoError(t, s.client.Delete(t.Context(), s.theirs.DeepCopy()))
		s.clock.Step(time.Minute)
		_, _, err = late.Ensure(t.Context(), s.client, s.role)
		require.True(t, apply.IsCollision(err), "%v", err)
		sealed := s.live().Rules
		require.Len(t, sealed, 2)
		require.Len(t, sealed[0].ResourceNames, 1)
		require.Equal(t, sealed[0].ResourceNames, sealed[1].ResourceNames, "this account may write a rule for another name")
		name := sealed[0].ResourceNames[0]
		seals[name[strings.LastIndex(name, ":")+1:]] = true
	}
	require.Len(t, seals, 2, "each seal has a random part, because its time is predictable")

	require.NoError(t, s.client.Delete(t.Context(), s.theirs))
	s.clock.Step(time.Minute)
	for _, want := range []apply.Result{apply.Updated, apply.Unchanged} {
		result, _, err := s.roles.Ensure(t.Context(), s.client, s.role)
		require.NoError(t, err)
		require.Equal(t, want, result)
		require.Len(t, s.live().Rules, 2)
		require.Empty(t, s.live().Rules[0].ResourceNames)
	}
}

func TestBindingsThatAreDeletedDuringTheCheckAreIgnored(t *testing.T) {
	s := newSealing(t)
	s.roles.Live = interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			for i := range 101 {
				deleted := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: s.role.GetNamespace(), Name: fmt.Sprint("deleted-", i)}}
				list.(*metav1.PartialObjectMetadataList).Items = append(list.(*metav1.PartialObjectMetadataList).Items, deleted)
			}
			return nil
		},
	})
	_, _, err := s.roles.Ensure(t.Context(), s.client, s.role)
	require.NoError(t, err)
	require.Len(t, s.live().Rules, 2)
}

// Writing a seal triggers another reconcile.
func TestARoleIsNotSealedIfFillingItWouldFail(t *testing.T) {
	s := newSealing(t)
	unlisted := s.roles
	unlisted.Live = s.listing(errors.New("too many"), nil)
	before := s.live().ResourceVersion
	for range 2 {
		_, _, err := unlisted.Ensure(t.Context(), s.client, s.role)
		require.ErrorContains(t, err, "too many")
		require.Equal(t, before, s.live().ResourceVersion)
		_, _, err = s.roles.Ensure(t.Context(), s.refusing(true), s.role)
		require.ErrorContains(t, err, "refused by a policy")
		require.Equal(t, before, s.live().ResourceVersion)
	}
}

func TestASealedRoleIsSealedAgainOnlyAfterAPause(t *testing.T) {
	s := newSealing(t)
	policed := s.refusing(false)
	_, _, err := s.roles.Ensure(t.Context(), policed, s.role)
	require.ErrorContains(t, err, "refused by a policy")
	sealed := s.live()
	require.NotEmpty(t, sealed.Rules)
	for range 3 {
		s.clock.Step(time.Second)
		_, _, err = s.roles.Ensure(t.Context(), policed, s.role)
		require.ErrorContains(t, err, "could not be written")
		require.Equal(t, sealed.ResourceVersion, s.live().ResourceVersion)
	}
	s.clock.Step(time.Minute)
	result, _, err := s.roles.Ensure(t.Context(), s.client, s.role)
	require.NoError(t, err)
	require.Equal(t, apply.Updated, result)
	require.Len(t, s.live().Rules, 2)

	other := s.live()
	other.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}, ResourceNames: []string{"remit/sealed:99999999999:x"}}}
	require.NoError(t, s.client.Update(t.Context(), other, client.FieldOwner(apply.Manager(s.role.GetLabels()))))
	_, _, err = s.roles.Ensure(t.Context(), s.client, s.role)
	require.True(t, apply.IsFieldConflict(err), "a time in the future was not set by Remit: %v", err)
}

// The cache may contain the install's own binding as it was before another user replaced its subjects.
func TestARoleIsNotCreatedForAnOutdatedBinding(t *testing.T) {
	s := newSealing(t)
	cached, index := s.bound()

	changed := cached.DeepCopy()
	changed.Subjects = s.theirs.Subjects
	require.NoError(t, s.client.Update(t.Context(), changed, client.FieldOwner("other")))
	require.NoError(t, s.client.Delete(t.Context(), s.live()))
	_, _, err := s.roles.Ensure(t.Context(), s.client, s.role)
	require.True(t, apply.IsCollision(err), "%v", err)
	require.ErrorContains(t, err, "its subjects were changed")
	emptied := cached.DeepCopy()
	emptied.Subjects = nil
	require.NoError(t, index.Update(emptied))
	_, _, err = s.roles.Ensure(t.Context(), s.client, s.role)
	require.True(t, apply.IsCollision(err), "the cached binding has no subjects: %v", err)
	require.NoError(t, index.Update(cached))
	late := s.roles
	late.Live = s.listing(nil, func() { require.NoError(t, index.Update(changed)) })
	_, _, err = late.Ensure(t.Context(), s.client, s.role)
	require.True(t, apply.IsCollision(err), "the event of the change arrives during the check: %v", err)
	require.True(t, apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(s.role), &rbacv1.Role{})))

	require.NoError(t, s.client.Delete(t.Context(), changed))
	require.NoError(t, index.Delete(changed))
	_, _, err = s.roles.Ensure(t.Context(), s.client, s.role)
	require.NoError(t, err)
}

// Another user creates the Role, replaces the subjects of its binding, and deletes the Role after it has been
// checked.
func TestADeletedRoleIsSealedBeforeItIsFilled(t *testing.T) {
	s := newSealing(t)
	cached, index := s.bound()
	require.NoError(t, s.client.Delete(t.Context(), s.live()))

	late, lists := s.roles, 0
	late.Live = s.listing(nil, func() {
		if lists++; lists == 1 {
			changed := cached.DeepCopy()
			changed.Subjects = s.theirs.Subjects
			require.NoError(t, s.client.Update(t.Context(), changed, client.FieldOwner("other")))
		}
	})
	_, _, err := late.Ensure(t.Context(), s.client, s.role)
	require.True(t, apply.IsCollision(err), "%v", err)
	live := s.live()
	require.Len(t, live.Rules, 2)
	require.Len(t, live.Rules[0].ResourceNames, 1)
	require.Contains(t, live.Rules[0].ResourceNames[0], "remit/sealed:")
	require.NotEmpty(t, content.IsPathSegmentName(live.Rules[0].ResourceNames[0]), "no role can have this name, so escalate and bind on it grant nothing")

	require.NoError(t, s.client.Delete(t.Context(), cached))
	require.NoError(t, index.Delete(cached))
	s.clock.Step(time.Minute)
	_, _, err = s.roles.Ensure(t.Context(), s.client, s.role)
	require.NoError(t, err)
	require.Len(t, s.live().Rules, 2)
}

// bound creates the install's own binding of the Role, and returns it with a cache that contains it.
func (s *sealing) bound() (*rbacv1.RoleBinding, toolscache.Indexer) {
	s.t.Helper()
	binding := s.own()
	_, _, err := s.roles.Ensure(s.t.Context(), s.client, binding)
	require.NoError(s.t, err)
	cached := &rbacv1.RoleBinding{}
	require.NoError(s.t, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(binding), cached))
	index := newIndex()
	require.NoError(s.t, index.Add(cached))
	s.roles.RBAC.RoleBindings = rbacv1listers.NewRoleBindingLister(index)
	s.roles.Rendered = []*unstructured.Unstructured{binding}
	return cached, index
}

// own returns the install's own binding of the Role.
func (s *sealing) own() *unstructured.Unstructured {
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "Role", "name": "r"},
		"subjects": []any{map[string]any{"kind": rbacv1.ServiceAccountKind, "namespace": s.role.GetNamespace(), "name": "operator"}},
	}}
	binding.SetNamespace(s.role.GetNamespace())
	binding.SetName("own")
	labels := s.roles.Owner.Labels()
	labels[names.LabelPermissionsHash] = "x"
	binding.SetLabels(labels)
	return binding
}

// The API server's conflict error suggests no remedy. The errors from both functions that write an install's bindings
// must suggest one.
func TestAnOwnBindingChangedByOthersIsACollision(t *testing.T) {
	s := newSealing(t)
	binding := s.own()
	_, _, err := s.roles.Ensure(t.Context(), s.client, binding)
	require.NoError(t, err)

	changed := &rbacv1.RoleBinding{}
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(binding), changed))
	changed.Subjects = s.theirs.Subjects
	require.NoError(t, s.client.Update(t.Context(), changed, client.FieldOwner("other")))
	const remedy = "/own no longer matches what this install created: its subjects were changed by another field manager; it was not changed: delete it, and it will be recreated"
	_, _, err = s.roles.Ensure(t.Context(), s.client, binding)
	require.ErrorContains(t, err, remedy)

	executor := &execute.Executor{Account: s.client, Facts: s.client, Cluster: s.client, RBAC: s.roles.RBAC}
	states, err := executor.Gather(t.Context(), []step.Step{{Object: binding, Owner: s.roles.Owner}})
	require.NoError(t, err)
	require.NoError(t, states[0].Problem)
	_, err = executor.Do(t.Context(), states[0])
	require.ErrorContains(t, err, remedy)
}

// The cache contains no objects, although a role of the install and a binding of another user exist.
func TestAnObjectThatIsNotInTheCacheYetIsRead(t *testing.T) {
	s := newSealing(t)
	result, _, err := s.roles.EnsureUncached(t.Context(), s.client, s.role)
	require.NoError(t, err)
	require.Equal(t, apply.Updated, result)
	require.Len(t, s.live().Rules, 2)

	require.NoError(t, s.client.Create(t.Context(), s.theirs))
	for _, subject := range []string{s.theirs.Subjects[0].Name, "mine"} {
		mine := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
			"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "Role", "name": "r"},
			"subjects": []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": "User", "name": subject}}}}
		mine.SetNamespace(s.theirs.Namespace)
		mine.SetName(s.theirs.Name)
		mine.SetLabels(s.roles.Owner.Labels())
		_, _, err = s.roles.EnsureUncached(t.Context(), s.client, mine)
		require.ErrorContains(t, err, "RoleBinding "+s.theirs.Namespace+"/theirs already exists and was not created by this install: ")
		live := &rbacv1.RoleBinding{}
		require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(s.theirs), live))
		require.Equal(t, s.theirs.ResourceVersion, live.ResourceVersion)
	}
}
