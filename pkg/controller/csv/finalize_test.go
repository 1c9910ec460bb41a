package csv

import (
	"context"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
)

// indexed returns a client with the lineage index of the cache.
func indexed(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...)
	for _, kind := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
		&apiregistrationv1.APIService{}, &apiextensionsv1.CustomResourceDefinition{},
	} {
		builder = builder.WithIndex(kind, lineageIndex, func(obj client.Object) []string { return []string{obj.GetLabels()[names.LabelLineage]} })
	}
	return builder.Build()
}

// An operator that reads objects without the conversion would lose fields with its next update.
func TestAConversionIsResetAfterTheOperatorHasStopped(t *testing.T) {
	t.Parallel()
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0", UID: "u"}}
	owner := (&Reconciler{proofs: proofs.Keys()}).ownerOf(csv, nil)
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"}}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "t1", Name: "d-service"}},
	}}
	own := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "d", UID: "d", OwnerReferences: []metav1.OwnerReference{owner.Reference()}}}
	foreign := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "foreign", UID: "f", OwnerReferences: []metav1.OwnerReference{owner.Reference()},
		Labels: map[string]string{names.LabelOwner: csv.Name}}}
	proofs.Mark(crd, owner)
	proofs.Mark(own, owner)
	own.Labels[names.LabelOwner] = csv.Name
	crd.Annotations[names.AnnotationConversion] = "t1/d-service"
	c := indexed(t, csv, crd, own, foreign)
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	r := &Reconciler{client: c, recorder: events.NewFakeRecorder(10), rbac: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(none), RoleBindings: rbacv1listers.NewRoleBindingLister(none),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(none), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none),
	}}
	allowed := false
	r.confirmer = &preflight.Confirmer{Ask: func(_ context.Context, _ rbac.Subject, _ string, rule rbacv1.PolicyRule) (bool, error) {
		return allowed || rule.Resources[0] != "deployments", nil
	}}
	strategy := func() apiextensionsv1.ConversionStrategyType {
		live := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(crd), live))
		return live.Spec.Conversion.Strategy
	}
	remove := func() (waiting bool) {
		s := &scope{csv: csv, owner: owner, account: scoped.Account{Namespace: "t1", Name: "acct"}}
		left, err := r.callers(t.Context(), s)
		require.NoError(t, err)
		waiting, err = r.stopAndRemove(t.Context(), s, c, left)
		require.NoError(t, err)
		return waiting
	}

	require.True(t, remove(), "the account may not delete the Deployment")
	require.Equal(t, apiextensionsv1.WebhookConverter, strategy())
	allowed = true
	r.confirmer = &preflight.Confirmer{Ask: r.confirmer.Ask}
	require.True(t, remove(), "the Deployment is being deleted")
	require.Equal(t, apiextensionsv1.WebhookConverter, strategy())
	require.False(t, remove())
	require.Equal(t, apiextensionsv1.NoneConverter, strategy())
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign), "it was not created by this install")
}

// An error would be retried repeatedly while the namespace is terminating.
func TestLeaveWithoutAnAccountIsNotAnError(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0", UID: "u"}}
	owner := (&Reconciler{proofs: proofs.Keys()}).ownerOf(csv, nil)
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	proofs.Mark(config, owner)
	c := indexed(t, csv, config)
	r := &Reconciler{client: c, proofs: proofs.Keys(), lookup: scoped.Lookup{Reader: c}, cached: scoped.Lookup{Reader: c}}
	s := &scope{csv: csv, facts: Facts{CSV: csv}}
	left, err := r.callers(t.Context(), &scope{csv: csv, owner: owner})
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, r.leave(t.Context(), s), "the OperatorGroup was deleted before")
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(config), config))
}

func TestCommandsAreQuotedForAShell(t *testing.T) {
	for name, want := range map[string]string{
		"plain:Name.v1_2@x": "plain:Name.v1_2@x", "$(id)": "'$(id)'", "a b": "'a b'", "it's": `'it'\''s'`, "a\nb": "'a\nb'", "é": "'é'",
	} {
		require.Equal(t, want, shellWord(name))
	}
}
