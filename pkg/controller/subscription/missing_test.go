package subscription

import (
	"context"
	"errors"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/test/env/recorded"
)

// greedy is the reader of a catalog whose bundles request permissions on Pods.
type greedy struct{ catalog.ContentReader }

func (greedy) Content(_ context.Context, _, _, name string) (*catalog.Content, error) {
	return &catalog.Content{Manifests: [][]byte{[]byte(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"` + name + `"},"spec":{"install":{"strategy":"deployment",
		"spec":{"deployments":[{"name":"op"}],"permissions":[{"serviceAccountName":"op","rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}]}}}}`)}}, nil
}

// The resolution finds missing permissions before an InstallPlan exists, here because a quota prevents its creation.
func TestReportsMissingPermissionsOfAResolutionWithoutAPlan(t *testing.T) {
	quota := errors.New("exceeded quota")
	server := recorded.New(t, nil, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "installer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "installer"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "installer"}}})
	c := &creating{err: quota}
	r := &Reconciler{Options: Options{Client: c, Clock: clock.RealClock{}}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock.RealClock{}, &answers{})}
	sub := subscription("a", "")
	sub.Spec.StartingCSV = "op.v1"
	// condition returns the condition PermissionsMissing after another reconcile.
	condition := func() operatorsv1alpha1.SubscriptionCondition {
		w := offering(sub)
		snapshot, _ := w.input.Catalogs.Get(catalogKey)
		snapshot.Reader = greedy{}
		w.input.Account, w.input.Targets, w.input.RBAC, w.tracked = scoped.Account{Namespace: "ns", Name: "installer"}, []string{"ns"}, server.RBAC(), server.RBAC()
		views, err := r.advance(t.Context(), w)
		require.ErrorIs(t, err, c.err)
		r.write(sub, *views["a"])
		return sub.Status.GetCondition(typePermissionsMissing)
	}
	got := condition()
	require.Equal(t, corev1.ConditionTrue, got.Status)
	require.Equal(t, "AccountLacksPermissions", got.Reason)
	require.Equal(t, `ServiceAccount ns/installer is missing permissions that op.v1 requests: in namespace ns {apiGroups: [""], resources: ["pods"], verbs: ["get"]}. `+
		"The InstallPlan, which does not exist yet, will list everything that is missing, with the RBAC to apply", got.Message)

	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "installer"}}
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"escalate", "bind"}}}
	server.Put(role)
	require.Empty(t, condition().Reason, "the account may grant permissions that it does not have")

	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}}
	server.Put(role)
	require.Equal(t, corev1.ConditionTrue, condition().Status)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	server.Put(role)
	require.Empty(t, condition().Reason, "the permissions were granted")

	role.Rules = nil
	server.Put(role)
	require.Equal(t, corev1.ConditionTrue, condition().Status)
	c.err = nil
	require.Empty(t, condition().Reason, "the report of the InstallPlan replaces that of the resolution")
}

// A namespace can have many sets with permissions in many target namespaces.
func TestALargeExcessIsNotKept(t *testing.T) {
	k := &known{plans: map[string]resolution{}}
	excess := []build.Excess{{Namespace: "ns", Missing: make([]rbacv1.PolicyRule, 10)}}
	k.keep("small", resolution{excess: excess})
	require.Equal(t, excess, k.plans["small"].excess)
	k.recompute("small")
	require.Contains(t, k.plans, "small")

	excess[0].Missing = make([]rbacv1.PolicyRule, 10_000)
	k.keep("large", resolution{excess: excess})
	require.Nil(t, k.plans["large"].excess)
	k.recompute("large")
	require.NotContains(t, k.plans, "large", "the next reconcile, which may have to report it, needs it")
	k.recompute("unknown")
}
