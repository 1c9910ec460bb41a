package installplan

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/controller/kit"
)

// waking returns a reconciler for the namespaces a and b. Each contains an OperatorGroup and unfinished plans, and a
// also contains a complete plan.
func waking(t *testing.T) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	plan := func(namespace, name string, phase operatorsv1alpha1.InstallPlanPhase, steps ...operatorsv1alpha1.StepResource) client.Object {
		ip := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
		ip.Status.Phase = phase
		for _, s := range steps {
			ip.Status.Plan = append(ip.Status.Plan, &operatorsv1alpha1.Step{Resource: s})
		}
		return ip
	}
	crd := operatorsv1alpha1.StepResource{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "things.x.io"}
	monitor := operatorsv1alpha1.StepResource{Group: "monitoring.coreos.com", Kind: "ServiceMonitor", Name: "m"}
	group := func(namespace string, spec operatorsv1.OperatorGroupSpec) client.Object {
		return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "og"}, Spec: spec}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		plan("a", "waits", operatorsv1alpha1.InstallPlanPhaseInstalling, crd),
		plan("a", "done", operatorsv1alpha1.InstallPlanPhaseComplete, crd, monitor),
		plan("b", "waits", "", monitor),
		group("a", operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", TargetNamespaces: []string{"t"}}),
		group("b", operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}}),
	).Build()
	return &Reconciler{
		Options:   Options{Client: c, CRDAccount: types.NamespacedName{Namespace: "remit", Name: "crds"}},
		interests: &kit.Interests{},
	}
}

func keys(requests []reconcile.Request) []string {
	var out []string
	for _, r := range requests {
		out = append(out, r.String())
	}
	return out
}

func TestChangesWakeTheAffectedPlans(t *testing.T) {
	account := func(namespace, name string) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	namespace := func(name, label string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"x": label}}}
	}
	for _, row := range []struct {
		name          string
		before, after client.Object
		want          []string
	}{
		{"the plan's account is created", nil, account("a", "acct"), []string{"a/waits"}},
		{"the plan's account is deleted", account("b", "acct"), nil, []string{"b/waits"}},
		{"the plan's account is changed", account("a", "acct"), account("a", "acct"), nil},
		{"another account is created", nil, account("a", "other"), nil},
		{"the CRD account is created", nil, account("remit", "crds"), []string{"a/waits", "b/waits"}},
		{"the CRD account is changed", account("remit", "crds"), account("remit", "crds"), nil},
		{"a target is created", nil, namespace("t", ""), []string{"a/waits"}},
		{"a target is changed", namespace("t", ""), namespace("t", "z"), nil},
		{"a namespace becomes a target", namespace("u", ""), namespace("u", "y"), []string{"b/waits"}},
		{"another namespace is created", nil, namespace("v", ""), nil},
		{"a Role that was not looked up is created", nil, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.ElementsMatch(t, row.want, keys(waking(t).Concerned(t.Context(), row.before, row.after)))
		})
	}
}

func TestACustomResourceDefinitionWakesThePlansThatUseIt(t *testing.T) {
	crd := func(plural, group, kind string) client.Object {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: group, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind}}}
	}
	r := waking(t)
	require.Equal(t, []string{"a/waits"}, keys(r.using(t.Context(), crd("things", "x.io", "Thing"))), "the plan installs the CustomResourceDefinition")
	require.Equal(t, []string{"b/waits"}, keys(r.using(t.Context(), crd("servicemonitors", "monitoring.coreos.com", "ServiceMonitor"))), "a step of the plan is of this kind")
	require.Empty(t, r.using(t.Context(), crd("podmonitors", "monitoring.coreos.com", "PodMonitor")))

	begun := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "c", Name: "begun"}}
	require.NoError(t, r.Client.Create(t.Context(), begun))
	require.Equal(t, []string{"c/begun"}, keys(r.using(t.Context(), crd("podmonitors", "monitoring.coreos.com", "PodMonitor"))), "the plan's status has no steps yet")
}

func TestLookedUpRBACWakesAPlan(t *testing.T) {
	r := waking(t)
	req := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: "waits"}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	roles := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	require.NoError(t, roles.Add(role))
	r.RBAC.ClusterRoles = rbacv1listers.NewClusterRoleLister(roles)
	tracked := r.RBAC
	done := r.interests.Track(req, &tracked)
	_, err := tracked.ClusterRoles.Get("c")
	require.NoError(t, err)
	done()
	require.Equal(t, []string{"a/waits"}, keys(r.Concerned(t.Context(), role, nil)))

	r.interests.Track(req, &tracked)()
	require.Empty(t, r.Concerned(t.Context(), role, nil))
}
