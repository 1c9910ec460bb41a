package kit

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestOrphaning(t *testing.T) {
	now := metav1.Now()
	object := func(uid types.UID, deleted *metav1.Time, finalizers ...string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: uid, DeletionTimestamp: deleted, Finalizers: finalizers}}
	}
	const orphan = metav1.FinalizerOrphanDependents
	existing, deleting, orphaning := object("a", nil, "f"), object("a", &now, "f"), object("a", &now, "f", orphan)
	update := func(from, to *corev1.ConfigMap) func(*Orphaning) bool {
		return func(o *Orphaning) bool {
			return o.Predicate().Update(event.UpdateEvent{ObjectOld: from, ObjectNew: to})
		}
	}
	create := func(o *Orphaning) bool { return o.Predicate().Create(event.CreateEvent{Object: orphaning}) }
	remove := func(o *Orphaning) bool { return o.Predicate().Delete(event.DeleteEvent{Object: deleting}) }
	for name, c := range map[string]struct {
		events []func(*Orphaning) bool
		of     *corev1.ConfigMap
		want   bool
	}{
		"the finalizer is present":                       {nil, orphaning, true},
		"the object is not being deleted":                {nil, object("a", nil, orphan), false},
		"another policy":                                 {[]func(*Orphaning) bool{update(existing, deleting)}, deleting, false},
		"the finalizer was present":                      {[]func(*Orphaning) bool{update(existing, orphaning), update(orphaning, deleting)}, deleting, true},
		"the finalizer was present at the start":         {[]func(*Orphaning) bool{create}, deleting, true},
		"the object no longer exists":                    {[]func(*Orphaning) bool{create, remove}, deleting, false},
		"another object has the same name":               {[]func(*Orphaning) bool{create}, object("b", &now), false},
		"the object was replaced between two watches":    {[]func(*Orphaning) bool{create, update(orphaning, object("b", &now))}, deleting, false},
		"the finalizer was set before the deletion":      {[]func(*Orphaning) bool{update(existing, object("a", nil, orphan))}, deleting, false},
		"the new object is deleted with the same policy": {[]func(*Orphaning) bool{update(existing, object("b", &now, orphan))}, object("b", &now), true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Orphaning{}
			for _, e := range c.events {
				require.True(t, e(o), "the predicate accepts all events")
			}
			require.Equal(t, c.want, o.Includes(c.of))
		})
	}
}
