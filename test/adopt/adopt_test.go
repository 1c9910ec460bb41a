package adopt

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	command "github.com/remit-olm/remit/cmd/kubectl-remit/adopt"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// adopt runs the command and returns its report.
func adopt(t *testing.T, code int, args ...string) *command.Report {
	t.Helper()
	stdout, stderr, got := cluster.Remit(t, append([]string{"adopt", "-o", "json", "--remit-namespace", cluster.Home}, args...)...)
	require.Equal(t, code, got, "%s%s", stdout, stderr)
	report := &command.Report{}
	require.NoError(t, json.Unmarshal([]byte(stdout), report), stdout)
	return report
}

// state returns the content of objects, including the managers of each field. It omits the status, which Kubernetes maintains,
// and the fields that change with every write, such as the resource version.
func state(t *testing.T, objs []client.Object) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, obj := range objs {
		gvk, err := apiutil.GVKForObject(obj, cluster.Client.Scheme())
		require.NoError(t, err)
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), u), "%s %s", gvk.Kind, obj.GetName())
		u.SetResourceVersion("")
		u.SetGeneration(0)
		delete(u.Object, "status")
		u.SetManagedFields(managers(u))
		out[fmt.Sprintf("%s %s/%s", gvk.Kind, u.GetNamespace(), u.GetName())] = u.Object
	}
	return out
}

func managers(obj client.Object) []metav1.ManagedFieldsEntry {
	out := slices.DeleteFunc(obj.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Subresource != "" })
	for i := range out {
		out[i].Time = nil
	}
	slices.SortFunc(out, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(strings.Compare(a.Manager, b.Manager), strings.Compare(string(a.Operation), string(b.Operation)))
	})
	return out
}

func (r *recorded) ready() {
	r.T.Helper()
	r.Eventually(func(c *assert.CollectT) {
		list := &appsv1.DeploymentList{}
		assert.NoError(c, cluster.Client.List(r.T.Context(), list, client.InNamespace(r.Namespace)))
		for _, d := range list.Items {
			assert.EqualValues(c, 1, d.Status.AvailableReplicas, d.Name)
			assert.Equal(c, d.Generation, d.Status.ObservedGeneration)
		}
	})
}

// running returns the UIDs of the Pods and ReplicaSets, and the revisions of the Deployments.
func (r *recorded) running() map[string]string {
	r.T.Helper()
	out := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &appsv1.ReplicaSetList{}, &appsv1.DeploymentList{}} {
		require.NoError(r.T, cluster.Client.List(r.T.Context(), list, client.InNamespace(r.Namespace)))
		require.NoError(r.T, meta.EachListItem(list, func(item runtime.Object) error {
			obj, _ := item.(client.Object)
			out[fmt.Sprintf("%T %s", obj, obj.GetName())] = fmt.Sprint(obj.GetUID(), obj.GetAnnotations()["deployment.kubernetes.io/revision"])
			return nil
		}))
	}
	return out
}

// scaleRemit starts or stops Remit's programs. They run again after the test.
func scaleRemit(t *testing.T, replicas int32) {
	t.Helper()
	if replicas == 0 {
		t.Cleanup(func() { scaleRemit(t, 1) })
	}
	ctx := context.WithoutCancel(t.Context())
	for _, name := range []string{names.ServiceAccountCatalog, names.ServiceAccountOLM} {
		d := &appsv1.Deployment{}
		require.NoError(t, cluster.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Home, Name: name}, d))
		before := d.DeepCopy()
		d.Spec.Replicas = &replicas
		require.NoError(t, cluster.Client.Patch(ctx, d, client.MergeFrom(before)))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			live := &appsv1.Deployment{}
			assert.NoError(c, cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), live))
			assert.Equal(c, live.Generation, live.Status.ObservedGeneration)
			assert.Equal(c, replicas, live.Status.Replicas)
			pods := &corev1.PodList{}
			assert.NoError(c, cluster.Client.List(ctx, pods, client.InNamespace(cluster.Home), client.MatchingLabels(live.Spec.Selector.MatchLabels)))
			assert.Len(c, pods.Items, int(replicas))
		}, patience, tick)
	}
}

func TestTakesOverAndGivesBack(t *testing.T) {
	spaces := make([]*recorded, 0, namespaces)
	var all []client.Object
	for range namespaces {
		tn := cluster.Tenant(t)
		tn.GrantReleases()
		r := newRecorded(tn)
		for n := range operators {
			r.operator(fmt.Sprintf("op%d", n), "catalog")
		}
		spaces = append(spaces, r)
		all = append(all, r.made...)
	}
	require.Greater(t, len(all), 300)
	for _, r := range spaces {
		r.ready()
	}
	before := state(t, all)

	t.Log("Remit does nothing in a namespace that is left to OLM, and the dry run lists all objects and writes nothing")
	for _, r := range spaces {
		report := adopt(t, 0, "-n", r.Namespace)
		requireComplete(t, r, report)
	}
	require.Empty(t, gocmp.Diff(before, state(t, all)))

	t.Log("after --undo, nothing remains of the adoption")
	scaleRemit(t, 0)
	adopt(t, 0, "-n", spaces[0].Namespace, "--yes")
	requireAdopted(t, adopt(t, 0, "-n", spaces[0].Namespace))
	require.NotEqual(t, before, state(t, all))
	adopt(t, 0, "-n", spaces[0].Namespace, "--undo", "--yes")
	adopt(t, 1, "-n", spaces[0].Namespace, "--undo")
	require.Empty(t, gocmp.Diff(before, state(t, all)))

	t.Log("nothing restarts, and Remit regards everything as installed")
	running := make([]map[string]string, 0, len(spaces))
	for _, r := range spaces {
		running = append(running, r.running())
		adopt(t, 0, "-n", r.Namespace, "--yes")
		require.Equal(t, running[len(running)-1], r.running())
	}
	scaleRemit(t, 1)
	for i, r := range spaces {
		r.Publish("catalog", "op0.v1.0.0 stable")
		r.requireInstalled()
		require.Equal(t, running[i], r.running())
		plans := &operatorsv1alpha1.InstallPlanList{}
		require.NoError(t, cluster.Client.List(t.Context(), plans, client.InNamespace(r.Namespace)))
		require.Len(t, plans.Items, operators, "Remit created no InstallPlan")
		requireAdopted(t, adopt(t, 0, "-n", r.Namespace))
	}

	t.Log("upgrading and removing an operator work")
	r := spaces[0]
	r.Publish("catalog", "op0.v1.0.0 stable", "op0.v2.0.0 stable replaces=op0.v1.0.0")
	r.requirePhase("op0.v2.0.0")
	require.Eventually(t, func() bool { return r.Get("op0.v1.0.0", &csv{}) != nil }, patience, tick)
	d := &appsv1.Deployment{}
	require.NoError(t, r.Get("op0", d))
	require.Equal(t, "images.test/op0:2.0.0", d.Spec.Template.Spec.Containers[0].Image)
	require.NoError(t, cluster.Client.Delete(t.Context(), &sub{ObjectMeta: r.Meta("op1")}))
	require.NoError(t, cluster.Client.Delete(t.Context(), &csv{ObjectMeta: r.Meta("op1.v1.0.0")}))
	r.requireRemoved("op1")
}

const (
	namespaces = 3
	operators  = 11
)

// requireComplete requires that the report lists every object that OLM wrote, and that nothing is refused.
func requireComplete(t *testing.T, r *recorded, report *command.Report) {
	t.Helper()
	require.Len(t, report.Namespaces, 1)
	ns := report.Namespaces[0]
	require.Equal(t, "olm", ns.ManagedBy)
	require.Empty(t, ns.Refused)
	requireVerdicts(t, r, ns)
	require.Len(t, ns.Installs, operators)
	for _, in := range ns.Installs {
		require.Len(t, in.Deployments, 1)
		require.False(t, in.Deployments[0].Restarts)
		require.Empty(t, in.Deployments[0].Differs)
	}
}

// requireVerdicts requires that every object that OLM wrote is listed, and is adopted unless Remit does not need to own it.
func requireVerdicts(t *testing.T, r *recorded, ns command.Namespace) {
	t.Helper()
	listed := map[string]command.Object{}
	for _, obj := range ns.Objects {
		listed[obj.String()] = obj
	}
	for _, obj := range r.made {
		gvk, err := apiutil.GVKForObject(obj, cluster.Client.Scheme())
		require.NoError(t, err)
		got, ok := listed[command.Object{Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}.String()]
		require.True(t, ok, "%s %s is not listed", gvk.Kind, obj.GetName())
		want := command.Adopt
		if _, copied := obj.GetLabels()["olm.copiedFrom"]; copied || gvk.Kind == "Subscription" || gvk.Kind == "InstallPlan" {
			want = command.Left
		}
		require.Equal(t, want, got.Verdict, "%s: %s", got, got.Why)
	}
}

func requireAdopted(t *testing.T, report *command.Report) {
	t.Helper()
	for _, ns := range report.Namespaces {
		require.Equal(t, "remit", ns.ManagedBy)
		for _, obj := range ns.Objects {
			require.NotEqual(t, command.Adopt, obj.Verdict, obj.String())
		}
	}
}

func (r *recorded) requireInstalled() {
	r.T.Helper()
	r.Eventually(func(c *assert.CollectT) {
		list := &operatorsv1alpha1.ClusterServiceVersionList{}
		assert.NoError(c, cluster.Client.List(r.T.Context(), list, client.InNamespace(r.Namespace)))
		for _, one := range list.Items {
			assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, one.Status.Phase, one.Status.Message)
			assert.NotEmpty(c, one.Status.RequirementStatus, "Remit has evaluated its requirements")
		}
		subs := &operatorsv1alpha1.SubscriptionList{}
		assert.NoError(c, cluster.Client.List(r.T.Context(), subs, client.InNamespace(r.Namespace)))
		for _, s := range subs.Items {
			assert.Equal(c, s.Name+".v1.0.0", s.Status.InstalledCSV)
			assert.EqualValues(c, operatorsv1alpha1.SubscriptionStateAtLatest, s.Status.State)
		}
		roles := &rbacv1.RoleList{}
		assert.NoError(c, cluster.Client.List(r.T.Context(), roles, client.InNamespace(r.Namespace), client.HasLabels{"olm.permissions.hash"}))
		for _, role := range roles.Items {
			assert.NotEqual(c, "1a2b3c", role.Labels["olm.permissions.hash"], "Remit has replaced the roles")
		}
	})
}

func (r *recorded) requirePhase(name string) {
	r.T.Helper()
	r.Eventually(func(c *assert.CollectT) {
		got := &csv{}
		if assert.NoError(c, r.Get(name, got)) {
			assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase, got.Status.Message)
		}
	})
}

// requireRemoved requires that an operator's objects are deleted, except the CustomResourceDefinition, the copy, and the
// ClusterRole that the account may not delete.
func (r *recorded) requireRemoved(pkg string) {
	r.T.Helper()
	label := client.HasLabels{"operators.coreos.com/" + pkg + "." + r.Namespace}
	r.Eventually(func(c *assert.CollectT) {
		for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{},
			&corev1.SecretList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &operatorsv1alpha1.ClusterServiceVersionList{}} {
			assert.NoError(c, cluster.Client.List(r.T.Context(), list, label))
			assert.Zero(c, meta.LenList(list), "%T", list)
		}
	})
}
