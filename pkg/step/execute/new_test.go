package execute_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/crds"
	"github.com/remit-olm/remit/test/env/proofs"
)

// plan is a plan of ConfigMaps for a namespace of a real API server. It counts the requests for them.
type plan struct {
	t             *testing.T
	client        client.WithWatch
	owner         ownerutil.Owner
	executor      *execute.Executor
	reads, writes atomic.Int64 // executors read concurrently
}

func newPlan(t *testing.T) *plan {
	t.Helper()
	c, err := client.NewWithWatch(controlplane.Shared(t).Config(), client.Options{Scheme: proofs.Scheme()})
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "new-"}}
	require.NoError(t, c.Create(t.Context(), ns))
	p := &plan{t: t, client: c, owner: ownerutil.Owner{
		Lineage: ownerutil.Lineage{Package: "p", Namespace: ns.Name}, CSV: "p.v1", Proofs: proofs.Keys(),
	}}
	account := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			p.reads.Add(1)
			return c.Get(ctx, key, obj, o...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, o ...client.ApplyOption) error {
			p.writes.Add(1)
			return c.Apply(ctx, obj, o...)
		},
	})
	p.executor = &execute.Executor{Account: account, CRDs: account, Facts: c, Cluster: c, RBAC: nothingCached()}
	return p
}

// step returns the step for a ConfigMap with one key.
func (p *plan) step(key string) step.Step {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{key: "1"}}}
	obj.SetNamespace(p.owner.Namespace)
	obj.SetName("cm")
	obj.SetLabels(p.owner.Labels())
	return step.Step{Object: obj, Owner: p.owner}
}

// gather calls GatherNew for one step, and returns its state.
func (p *plan) gather(s step.Step) execute.State {
	p.t.Helper()
	states, err := p.executor.GatherNew(p.t.Context(), []step.Step{s})
	require.NoError(p.t, err)
	return states[0]
}

func TestAnAcceptedCreationNeedsOneRequest(t *testing.T) {
	p := newPlan(t)
	state := p.gather(p.step("k"))
	require.NoError(t, state.Problem)
	require.Nil(t, state.Live)
	require.NoError(t, p.executor.DryRun(t.Context(), state))
	require.Equal(t, []int64{0, 1}, []int64{p.reads.Load(), p.writes.Load()})
	require.True(t, apierrors.IsNotFound(p.client.Get(t.Context(), client.ObjectKeyFromObject(state.Step.Object), &corev1.ConfigMap{})), "nothing is stored")
}

// A Role and its RoleBinding that do not exist need one dry run, because the binding can be tried only when the Role exists, and a
// CustomResourceDefinition is not read before its dry run.
func TestNewBindingsAndDefinitionsAreNotRead(t *testing.T) {
	p := newPlan(t)
	role, binding, crd := p.step("k"), p.step("k"), p.step("k")
	role.Object = p.object("rbac.authorization.k8s.io/v1", "Role", "r")
	binding.Object = p.object("rbac.authorization.k8s.io/v1", "RoleBinding", "r")
	binding.Object.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
	name := p.owner.Namespace + "s"
	crd.Object = p.object("apiextensions.k8s.io/v1", "CustomResourceDefinition", name+"."+p.owner.Namespace+".example.com")
	crd.Object.SetNamespace("")
	crd.Object.Object["spec"] = map[string]any{"group": p.owner.Namespace + ".example.com", "scope": "Namespaced",
		"names":    map[string]any{"kind": "Thing", "listKind": "ThingList", "plural": name, "singular": "thing"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}}
	p.executor.Facts = p.executor.Account // counts the reads of the CustomResourceDefinition
	states, err := p.executor.GatherNew(t.Context(), []step.Step{crd, role, binding})
	require.NoError(t, err)
	for _, state := range states {
		require.NoError(t, state.Problem)
		require.Nil(t, state.Live)
	}
	require.Equal(t, []int64{0, 2}, []int64{p.reads.Load(), p.writes.Load()})
	for _, state := range execute.Tryable(states) {
		require.NoError(t, p.executor.DryRun(t.Context(), state))
	}
	require.Equal(t, []int64{0, 2}, []int64{p.reads.Load(), p.writes.Load()})
}

// A binding of another client that the cache does not contain yet would grant the permissions of the role that the plan creates.
func TestFindsUncachedBindingsToPlannedRoles(t *testing.T) {
	for name, found := range map[string]string{"r": "RoleBinding", "theirs": "Role"} {
		p := newPlan(t)
		role, binding := p.step("k"), p.step("k")
		role.Object = p.object("rbac.authorization.k8s.io/v1", "Role", "r")
		labels := role.Object.GetLabels()
		labels[names.LabelPermissionsHash] = "h"
		role.Object.SetLabels(labels)
		role.Object.Object["rules"] = []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}
		binding.Object = p.object("rbac.authorization.k8s.io/v1", "RoleBinding", "r")
		binding.Object.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
		require.NoError(t, p.client.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.owner.Namespace, Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "stranger"}},
		}))
		states, err := p.executor.GatherNew(t.Context(), []step.Step{role, binding})
		require.NoError(t, err)
		problems := map[string]error{}
		for _, state := range states {
			problems[state.Step.Object.GetKind()] = state.Problem
		}
		require.True(t, apply.IsCollision(problems[found]), "%v", problems)
		require.ErrorContains(t, problems[found], "RoleBinding "+p.owner.Namespace+"/"+name)
	}
}

// object returns an object of the plan's owner without content.
func (p *plan) object(version, kind, name string) *unstructured.Unstructured {
	obj := apply.Reference(schema.FromAPIVersionAndKind(version, kind), p.owner.Namespace, name)
	obj.SetLabels(p.owner.Labels())
	return obj
}

// If the ClusterServiceVersion exists, it becomes the owner of the other objects, which the first dry run did not include.
func TestADryRunIsRepeatedWithTheOwner(t *testing.T) {
	crds.InstallCSVs(t, controlplane.Shared(t).Config())
	p := newPlan(t)
	csv := p.step("k")
	csv.Object = p.object("operators.coreos.com/v1alpha1", "ClusterServiceVersion", p.owner.CSV)
	csv.Object.Object["spec"] = map[string]any{"displayName": "p", "install": map[string]any{"strategy": "deployment"}}
	_, _, err := apply.Ensure(t.Context(), p.client, csv.Object, p.owner)
	require.NoError(t, err)
	states, err := p.executor.GatherNew(t.Context(), []step.Step{csv, p.step("k")})
	require.NoError(t, err)
	require.NotNil(t, states[0].Live)
	require.Nil(t, states[1].Live)
	writes := p.writes.Load()
	require.NoError(t, p.executor.DryRun(t.Context(), states[1]))
	require.Equal(t, writes+1, p.writes.Load())
}

func TestADryRunDoesNotHideACollision(t *testing.T) {
	p := newPlan(t)
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.owner.Namespace, Name: "cm"}, Data: map[string]string{"x": "theirs"}}
	require.NoError(t, p.client.Create(t.Context(), theirs))
	state := p.gather(p.step("k"))
	require.True(t, apply.IsCollision(state.Problem), "%v", state.Problem)
	require.Equal(t, theirs.UID, state.Live.GetUID())
}

// Only the field manager is the same: another client can choose the same field manager.
func TestADryRunDoesNotHideACollisionWithTheSameFieldManager(t *testing.T) {
	p := newPlan(t)
	wanted := p.step("k")
	theirs := wanted.Object.DeepCopy()
	require.NoError(t, p.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(theirs), client.FieldOwner(apply.Manager(wanted.Object.GetLabels()))))
	state := p.gather(wanted)
	require.True(t, apply.IsCollision(state.Problem), "%v", state.Problem)
}

func TestFindsAnObjectOfTheSameInstall(t *testing.T) {
	p := newPlan(t)
	_, made, err := apply.Ensure(t.Context(), p.client, p.step("k").Object, p.owner)
	require.NoError(t, err)
	state := p.gather(p.step("k"))
	require.NoError(t, state.Problem)
	require.Equal(t, made.GetUID(), state.Live.GetUID())
	writes := p.writes.Load()
	require.NoError(t, p.executor.DryRun(t.Context(), state))
	require.Equal(t, writes, p.writes.Load(), "nothing would change")
}

func TestReportsWhyACreationIsNotAccepted(t *testing.T) {
	p := newPlan(t)
	state := p.gather(p.step("not a key"))
	require.NoError(t, state.Problem)
	require.Nil(t, state.Live)
	require.True(t, apierrors.IsInvalid(p.executor.DryRun(t.Context(), state)))
}
