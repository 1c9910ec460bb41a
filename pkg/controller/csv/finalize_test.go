package csv

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/proofs"
)

// An error would be retried repeatedly while the namespace is terminating.
func TestLeaveWithoutAnAccountIsNotAnError(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1.0.0", UID: "u"}}
	owner := (&Reconciler{proofs: proofs.Keys()}).ownerOf(csv, nil)
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	proofs.Mark(config, owner)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(csv, config)
	for _, kind := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
		&apiregistrationv1.APIService{}, &apiextensionsv1.CustomResourceDefinition{},
	} {
		builder = builder.WithIndex(kind, lineageIndex, func(obj client.Object) []string { return []string{obj.GetLabels()[names.LabelLineage]} })
	}
	c := builder.Build()
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
