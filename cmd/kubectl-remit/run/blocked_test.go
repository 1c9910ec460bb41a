package run

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// installing returns a tenant whose Subscription and InstallPlan have the given status.
func installing(t *testing.T, sub operatorsv1alpha1.SubscriptionStatus, plan operatorsv1alpha1.InstallPlanStatus) *tenant {
	t.Helper()
	scheme, err := controller.NewScheme()
	require.NoError(t, err)
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "op"}
	sub.InstallPlanRef = &corev1.ObjectReference{Name: "op"}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&operatorsv1alpha1.Subscription{ObjectMeta: meta, Spec: &operatorsv1alpha1.SubscriptionSpec{}, Status: sub},
		&operatorsv1alpha1.InstallPlan{ObjectMeta: meta, Status: plan}).Build()
	return &tenant{demo: &demo{Options: Options{Timeout: time.Hour}, client: c}, namespace: "ns", pkg: "op"}
}

func TestStopsWaitingForABlockedInstallBeforeTheTimeout(t *testing.T) {
	condition := func(kind operatorsv1alpha1.InstallPlanConditionType) operatorsv1alpha1.InstallPlanStatus {
		return operatorsv1alpha1.InstallPlanStatus{Phase: operatorsv1alpha1.InstallPlanPhaseInstalling, Message: "it is blocked",
			Conditions: []operatorsv1alpha1.InstallPlanCondition{{Type: kind, Status: corev1.ConditionTrue}}}
	}
	unresolved := operatorsv1alpha1.SubscriptionStatus{Conditions: []operatorsv1alpha1.SubscriptionCondition{{
		Type: operatorsv1alpha1.SubscriptionResolutionFailed, Status: corev1.ConditionTrue, Reason: resolver.ConstraintsNotSatisfiable, Message: "it is blocked",
	}}}
	for name, row := range map[string]*tenant{
		"missing permissions": installing(t, operatorsv1alpha1.SubscriptionStatus{}, condition(names.ConditionPermissionsMissing)),
		"refused objects":     installing(t, operatorsv1alpha1.SubscriptionStatus{}, condition(names.ConditionObjectsRefused)),
		"a failed plan": installing(t, operatorsv1alpha1.SubscriptionStatus{},
			operatorsv1alpha1.InstallPlanStatus{Phase: operatorsv1alpha1.InstallPlanPhaseFailed, Message: "it is blocked"}),
		"no resolution": installing(t, unresolved, operatorsv1alpha1.InstallPlanStatus{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*blockedFor)
			defer cancel()
			require.ErrorContains(t, row.until(ctx, row.planComplete), "it is blocked")
			require.NoError(t, ctx.Err())
		})
	}
}

func TestWaitsForAnInstallThatIsBlockedBriefly(t *testing.T) {
	d := &demo{Options: Options{Timeout: time.Minute}}
	polls := 0
	require.NoError(t, d.until(t.Context(), func(context.Context) error {
		if polls++; polls < 5 {
			return blockedError{errors.New("not observed yet")}
		}
		return nil
	}))
}

func TestWellKnownKindsAreThoseThatBundlesMayContain(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range wellKnown() {
		crd := k.crd()
		require.False(t, seen[crd.Name], crd.Name)
		seen[crd.Name] = true
		if kind, ok := bundle.KindOf(schema.GroupKind{Group: k.group, Kind: k.kind}); ok {
			require.Equal(t, kind.Resource, k.plural)
			require.Equal(t, kind.Namespaced, crd.Spec.Scope == apiextensionsv1.NamespaceScoped, crd.Name)
		}
	}
	for _, name := range []string{"servicemonitors.monitoring.coreos.com", "podmonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com"} {
		require.True(t, seen[name], name)
	}
}

func TestShowsCommandsOnlyForAClusterThatStaysUp(t *testing.T) {
	for _, exit := range []bool{false, true} {
		out := &bytes.Buffer{}
		d := &demo{Options: Options{Exit: exit, Out: out}, progress: newProgress(out), cluster: &controlplane.Instance{Kubeconfig: "/tmp/kubeconfig"}}
		d.hints("demo", "pods")
		require.Equal(t, !exit, strings.Contains(out.String(), "kubectl --kubeconfig /tmp/kubeconfig get pods -n demo"), out.String())
		require.Equal(t, exit, out.Len() == 0)
	}
}

func TestAClusterStaysUpIfPackagesAreNotInstalled(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	notInstalled := notInstalledError{errors.New("1 of 2 packages are not installed: op")}
	for name, row := range map[string]struct {
		exit    bool
		result  error
		staysUp bool
	}{
		"success":                    {result: nil, staysUp: true},
		"a package is not installed": {result: notInstalled, staysUp: true},
		"a package is not installed, with --exit": {result: notInstalled, exit: true},
		"the cluster could not start":             {result: errors.New("no etcd")},
		"success, with --exit":                    {exit: true},
	} {
		t.Run(name, func(t *testing.T) {
			out := &bytes.Buffer{}
			d := &demo{Options: Options{Exit: row.exit, Out: out}, progress: newProgress(out), cluster: &controlplane.Instance{Kubeconfig: "/tmp/kubeconfig"}}
			require.Equal(t, row.result, d.finish(ended, row.result))
			require.Equal(t, row.staysUp, strings.Contains(out.String(), "stays up until you press Ctrl-C"), out.String())
			require.Equal(t, row.staysUp && row.result != nil, strings.Contains(out.String(), "1 of 2 packages are not installed: op"), out.String())
		})
	}
}

func TestSuggestsWithCRDsForWellKnownKinds(t *testing.T) {
	require.True(t, namesWellKnown("GroupVersionKind monitoring.coreos.com/v1, Kind=PrometheusRule not found on the cluster. More"))
	require.False(t, namesWellKnown("GroupVersionKind example.com/v1, Kind=PrometheusRule not found on the cluster."))
	require.False(t, namesWellKnown("monitoring.coreos.com/v1, Kind=PrometheusRule is invalid"))
}
