package installplan

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// The plan that installs a dependency has a step for its Subscription, which exists before the plan.
func TestAPlanShowsTheSubscriptionOfADependency(t *testing.T) {
	t.Parallel()
	requested := func(by, bundle string, uid types.UID) change {
		return func(w *world) {
			sub := &operatorsv1alpha1.Subscription{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: uid, Annotations: map[string]string{names.AnnotationGeneratedBy: by, "a": "b"}},
				Spec:       &operatorsv1alpha1.SubscriptionSpec{Package: "demo", StartingCSV: bundle},
			}
			w.Put(sub)
			w.pin.StartingCSV = "demo.v1.0.0"
		}
	}
	checkRows(t, []row{
		{"of a dependency", []change{requested("a", "demo.v1.0.0", "sub")}, completes("++++++=", append(steps(), deploys)...)},
		{"of a user", []change{requested("", "demo.v1.0.0", "sub")}, completes("++++++", append(steps(), deploys)...)},
		{"of a dependency that is upgraded", []change{requested("a", "demo.v0.9.0", "sub")}, completes("++++++", append(steps(), deploys)...)},
		{"that was recreated", []change{requested("a", "demo.v1.0.0", "other")}, completes("++++++", append(steps(), deploys)...)},
	})
	w := newWorld(t, requested("a", "demo.v1.0.0", "sub"))
	w.reconcile()
	shown := w.plan.Status.Plan[6]
	require.Equal(t, "demo.v1.0.0", shown.Resolving)
	manifest := shown.Resource.Manifest
	shown.Resource.Manifest = ""
	require.Equal(t, operatorsv1alpha1.StepResource{CatalogSource: "cat", CatalogSourceNamespace: "ns", Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription", Name: "demo"}, shown.Resource)
	require.JSONEq(t, `{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"namespace": "ns", "name": "demo"}, "spec": {"source": "cat", "sourceNamespace": "ns",
		"name": "demo", "channel": "stable", "startingCSV": "demo.v1.0.0"}, "status": {"lastUpdated": null}}`, manifest)
}
