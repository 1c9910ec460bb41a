package csv

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// The cache contains only a part of these objects, with which nothing may be rendered.
func TestPartsOfLargeObjectsAreNotInstalled(t *testing.T) {
	t.Parallel()
	const message = "the object needs 123.0 MiB of memory, which is more than Remit keeps for an object of this kind; remove entries from its lists, labels or annotations"
	checkRows(t, []row{
		{"the ClusterServiceVersion", []change{editing(func(c *operatorsv1alpha1.ClusterServiceVersion) { budget.Refuse(c, 123<<20) })},
			fails(reasonInvalidStrategy, "install strategy invalid: "+message)},
		{"a ClusterServiceVersion that cannot be decoded", []change{editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			c.Annotations[names.AnnotationUndecodable] = "why"
		})}, fails(reasonInvalidStrategy, "install strategy invalid: a part of the object cannot be decoded; correct the field that the reason names, or delete the object: \"why\"")},
		{"its Subscription", []change{planned, func(w *world) {
			sub := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo"}, Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "demo"}}
			sub.Status.CurrentCSV = "demo.v1.0.0"
			budget.Refuse(sub, 123<<20)
			w.Put(sub)
		}}, fails(reasonInvalidStrategy, "install strategy invalid: Subscription demo, with the config of the Deployments: "+message)},
	})
}
