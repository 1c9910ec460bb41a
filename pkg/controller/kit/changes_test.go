package kit

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestAnotherObjectWithTheSameNameIsAChange(t *testing.T) {
	object := func(uid types.UID, generation int64) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: uid, Generation: generation}}
	}
	for _, row := range []struct {
		name             string
		after            client.Object
		changed, another bool
	}{
		{"only its status", object("1", 1), false, false},
		{"its spec", object("1", 2), true, false},
		{"another object", object("2", 1), true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			update := event.UpdateEvent{ObjectOld: object("1", 1), ObjectNew: row.after}
			require.Equal(t, row.changed, SpecChanged().Update(update))
			require.Equal(t, row.another, Replaced().Update(update))
		})
	}
	require.True(t, SpecChanged().Create(event.CreateEvent{Object: object("1", 1)}))
	require.True(t, Replaced().Delete(event.DeleteEvent{Object: object("1", 1)}))
}

func TestDropsObjectsThatExistWhenAWatchBegins(t *testing.T) {
	obj := &corev1.Namespace{}
	require.False(t, DropExisting().Create(event.CreateEvent{Object: obj, IsInInitialList: true}))
	require.True(t, DropExisting().Create(event.CreateEvent{Object: obj}))
	require.True(t, DropExisting().Update(event.UpdateEvent{ObjectOld: obj, ObjectNew: obj}))
	require.True(t, DropExisting().Delete(event.DeleteEvent{Object: obj}))
}
