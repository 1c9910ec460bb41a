package csv

import (
	"context"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
)

// A webhook that replaces images edits every Deployment, and must not cause a live read in every reconcile.
func TestEditsAreReadOncePerVersionOfADeployment(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op.v1", UID: "1"}}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "ns"}, CSV: csv.Name, UID: csv.UID, Proofs: proofs.Keys()}
	image := func(image string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op", UID: "2", OwnerReferences: []metav1.OwnerReference{owner.Reference()}}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: image}}
		proofs.Mark(d, owner)
		return d
	}
	live := image("mirror/op:1")
	live.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-set", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"manager\"}":{"f:image":{}}}}}}}`)}}
	c := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithReturnManagedFields().WithObjects(live).Build()
	reads := 0
	counting := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, obj, o...)
		},
	})
	r := &Reconciler{Options: Options{Client: c, Live: counting}, edits: &edits{}}
	note := func(want string) []string {
		s := &scope{csv: csv, owner: owner, deployments: []*appsv1.Deployment{image(want)}}
		require.NoError(t, r.noteEdits(t.Context(), s))
		return s.facts.Notes
	}
	for range 3 {
		require.Len(t, note("op:1"), 1)
	}
	require.Equal(t, 1, reads, "the answer is cached")
	require.Contains(t, note("op:2")[0], `instead of "op:2"`)
	require.Equal(t, 2, reads, "the cached answer is for another image")

	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(live), live))
	live.Labels["more"] = "yes"
	require.NoError(t, c.Update(t.Context(), live))
	note("op:2")
	note("op:2")
	require.Equal(t, 3, reads, "the cached answer is for another resource version")

	require.Empty(t, note("mirror/op:1"))
	require.Empty(t, r.edits.Get(client.ObjectKeyFromObject(csv)), "nothing is cached for an unedited Deployment")
	note("op:1")
	require.NotEmpty(t, r.edits.Get(client.ObjectKeyFromObject(csv)))
	r.edits.keep(client.ObjectKeyFromObject(csv), nil)
	require.Empty(t, r.edits.Get(client.ObjectKeyFromObject(csv)))
}
