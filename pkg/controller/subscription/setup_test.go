package subscription

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/controller/kit"
)

func TestAccountsAndTargetsWakeUnresolvedNamespaces(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	var objects []client.Object
	for namespace, status := range map[string]corev1.ConditionStatus{"waits": corev1.ConditionTrue, "fine": corev1.ConditionFalse} {
		sub := subscription(namespace, operatorsv1alpha1.ApprovalAutomatic)
		sub.Namespace = namespace
		sub.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: operatorsv1alpha1.SubscriptionResolutionFailed, Status: status})
		objects = append(objects, sub, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "og"},
			Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: "acct", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}}})
	}
	r := &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()},
		interests: &kit.Interests{}}
	account := func(namespace, name string) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	target := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t", Labels: map[string]string{"x": "y"}}}
	waits := []ctrl.Request{request("waits")}
	for _, row := range []struct {
		name          string
		before, after client.Object
		want          []ctrl.Request
	}{
		{"the namespace's account is created", nil, account("waits", "acct"), waits},
		{"the namespace's account changes", account("waits", "acct"), account("waits", "acct"), nil},
		{"another account is created", nil, account("waits", "other"), nil},
		{"the account of a resolved namespace is created", nil, account("fine", "acct"), nil},
		{"a target is created", nil, target, waits},
		{"a target changes", target, target, nil},
		{"another namespace is created", nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "u"}}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, r.Concerned(t.Context(), row.before, row.after))
		})
	}
}

func TestAKindWakesNamespacesThatMayNeedIt(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	var objects []client.Object
	for namespace, condition := range map[string]operatorsv1alpha1.SubscriptionConditionType{
		"unresolved": operatorsv1alpha1.SubscriptionResolutionFailed, "held": typeUpgradeHeldBack, "fine": operatorsv1alpha1.SubscriptionInstallPlanPending,
	} {
		sub := subscription(namespace, operatorsv1alpha1.ApprovalAutomatic)
		sub.Namespace = namespace
		sub.Status.SetCondition(operatorsv1alpha1.SubscriptionCondition{Type: condition, Status: corev1.ConditionTrue})
		objects = append(objects, sub)
	}
	r := &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}, kinds: &kinds{}}
	require.ElementsMatch(t, []ctrl.Request{request("unresolved"), request("held")}, r.namespacesInNeed(t.Context(), nil))
}

func TestACatalogSourceWakesOnlyNamespacesThatCanUseIt(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, operatorsv1alpha1.AddToScheme(scheme))
	var objects []client.Object
	for _, namespace := range []string{"a", "b"} {
		sub := subscription(namespace, operatorsv1alpha1.ApprovalAutomatic)
		sub.Namespace = namespace
		objects = append(objects, sub)
	}
	r := &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), GlobalCatalogNamespace: "global"}}
	source := func(namespace string) client.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cat", UID: "1"}}
	}
	require.Equal(t, []ctrl.Request{request("a")}, r.catalogUsers(t.Context(), source("a")))
	require.Empty(t, r.catalogUsers(t.Context(), source("c")), "the namespace has no Subscriptions")
	require.ElementsMatch(t, []ctrl.Request{request("a"), request("b")}, r.catalogUsers(t.Context(), source("global")))
}
