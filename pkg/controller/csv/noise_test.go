package csv

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/proofs"
)

func TestOnlyWhatIsReadOfAnOperatorGroupWakesItsVersions(t *testing.T) {
	now := metav1.Now()
	for what, row := range map[string]struct {
		change func(og *operatorsv1.OperatorGroup)
		want   bool
	}{
		"a label":               {func(og *operatorsv1.OperatorGroup) { og.Labels = map[string]string{"a": "b"} }, false},
		"another annotation":    {func(og *operatorsv1.OperatorGroup) { og.Annotations["a"] = "b" }, false},
		"the status":            {func(og *operatorsv1.OperatorGroup) { og.Status.Namespaces = []string{"t"} }, false},
		"APIs of a dynamic one": {func(og *operatorsv1.OperatorGroup) { og.Annotations["olm.providedAPIs"] = "a" }, false},
		"APIs of a static one": {func(og *operatorsv1.OperatorGroup) {
			og.Spec.StaticProvidedAPIs, og.Annotations["olm.providedAPIs"] = true, "a"
		}, true},
		"the spec":       {func(og *operatorsv1.OperatorGroup) { og.Generation++ }, true},
		"another object": {func(og *operatorsv1.OperatorGroup) { og.UID = "2" }, true},
		"its deletion":   {func(og *operatorsv1.OperatorGroup) { og.DeletionTimestamp = &now }, true},
		"the manager":    {func(og *operatorsv1.OperatorGroup) { og.Annotations[names.AnnotationManagedBy] = names.ManagedByOLM }, true},
		"kept excess":    {func(og *operatorsv1.OperatorGroup) { og.Annotations[names.AnnotationKeepExcess] = "true" }, true},
	} {
		before := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{UID: "1", Generation: 1, Annotations: map[string]string{}}}
		after := before.DeepCopy()
		row.change(after)
		require.Equal(t, row.want, groupChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), what)
	}
}

func TestOnlyTheDeletionOfAForeignDeploymentWakesVersions(t *testing.T) {
	changed := (&Reconciler{Options: Options{Proofs: proofs.Keys()}}).deploymentChanged()
	foreign := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", UID: "1"}}
	labeled, owned := foreign.DeepCopy(), foreign.DeepCopy()
	labeled.Labels = map[string]string{names.LabelManaged: "true", names.LabelLineage: "x"}
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: operatorsv1alpha1.ClusterServiceVersionKind, Name: "op.v1"}}
	require.False(t, changed.Create(event.CreateEvent{Object: foreign}))
	require.False(t, changed.Update(event.UpdateEvent{ObjectOld: foreign, ObjectNew: labeled}))
	require.True(t, changed.Delete(event.DeleteEvent{Object: foreign}))
	require.True(t, changed.Create(event.CreateEvent{Object: owned}))
	require.True(t, changed.Update(event.UpdateEvent{ObjectOld: owned, ObjectNew: foreign}), "an owner was removed")
	require.True(t, changed.Update(event.UpdateEvent{ObjectOld: foreign, ObjectNew: owned}), "an owner was added")
}
