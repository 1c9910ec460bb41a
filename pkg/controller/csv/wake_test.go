package csv

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

func TestAChangeWakesTheCSVsThatItConcerns(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	var objects []client.Object
	for _, namespace := range []string{"a", "b"} {
		c := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "op.v1"}}
		c.Spec.InstallStrategy.StrategySpec.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op"}}
		objects = append(objects, c, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "og"},
			Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", TargetNamespaces: []string{"target-of-" + namespace}}})
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	r := &Reconciler{client: c, cached: scoped.Lookup{Reader: c}, interests: &rbac.Interests[ctrl.Request]{}}

	account := func(name string, labels map[string]string) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: labels}}
	}
	withSecrets := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "op"}, Secrets: []corev1.ObjectReference{{Name: "s"}}}
	marked := map[string]string{names.LabelOwnerNamespace: "a", names.LabelOwner: "op.v1"}
	role := func(labels map[string]string) client.Object {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "r", Labels: labels}}
	}
	own := request("a", "op.v1")
	for _, row := range []struct {
		name          string
		before, after client.Object
		want          []ctrl.Request
	}{
		{"its account comes", nil, account("acct", nil), own},
		{"its account goes", account("acct", nil), nil, own},
		{"its account is labelled", account("acct", nil), account("acct", marked), nil},
		{"its operator's ServiceAccount comes", nil, account("op", nil), own},
		{"its operator's ServiceAccount loses its marks", account("op", marked), account("op", nil), own},
		{"its operator's ServiceAccount gets a Secret", account("op", nil), withSecrets, nil},
		{"another ServiceAccount comes", nil, account("other", nil), nil},
		{"a target comes", nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "target-of-a"}}, own},
		{"another namespace comes", nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, nil},
		{"a role of its own goes", role(marked), nil, own},
		{"a role of its own loses its marks", role(marked), role(nil), own},
		{"another role goes", role(nil), nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.ElementsMatch(t, row.want, r.Concerned(t.Context(), row.before, row.after))
		})
	}
}
