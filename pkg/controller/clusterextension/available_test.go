package clusterextension

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/apply"
)

// What cannot be observed is not available, even if the run fails and is repeated (docs/adr/0073).
func TestAvailableDoesNotOutliveItsObservation(t *testing.T) {
	u := givenUnit(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("the cache is not available")
	}})
	ext := extension("op", func(ext *olmv1.ClusterExtension) { ext.Status.Install = &olmv1.ClusterExtensionInstallStatus{} })
	s := newRun(u.Reconciler, ext)
	meta.SetStatusCondition(&s.ext.Status.Conditions, metav1.Condition{Type: olmv1.TypeAvailable, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded})
	crd := apply.Reference(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", "things.example.com")
	s.memory.Change(s.key(), func(is *remembered) { is.probedFor, is.probed = "hash", []*unstructured.Unstructured{crd} })
	s.observeInstalled(t.Context())
	s.setAvailable()
	got := meta.FindStatusCondition(s.ext.Status.Conditions, olmv1.TypeAvailable)
	require.Equal(t, metav1.ConditionUnknown, got.Status)
	require.Equal(t, olmv1.ReasonNotObserved, got.Reason)
	require.Contains(t, got.Message, "CustomResourceDefinition things.example.com: ")
	require.Contains(t, got.Message, "the cache is not available")
}
