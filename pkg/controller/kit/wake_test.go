package kit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestInformerEventsBecomeChangesBetweenTwoStates(t *testing.T) {
	was, is := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "was"}}, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "is"}}
	type seen struct{ before, after client.Object }
	var got []seen
	notify := func(before, after client.Object) { got = append(got, seen{before, after}) }
	events(notify, nil).OnAdd(is, true)
	require.Equal(t, []seen{{nil, is}}, got)

	h := events(nil, notify)
	got = nil
	h.OnAdd(is, true)
	require.Empty(t, got, "objects that exist at the start do not wake a reconciler")
	h.OnAdd(is, false)
	h.OnUpdate(was, is)
	h.OnDelete(was)
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "was", Obj: was})
	h.OnDelete("nonsense")
	require.Equal(t, []seen{{nil, is}, {was, is}, {was, nil}, {was, nil}}, got)
}

func TestTheSoonerOfTwoTimesWakes(t *testing.T) {
	for _, row := range [][3]time.Duration{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 2, 1}, {2, 1, 1}} {
		require.Equal(t, row[2], Sooner(row[0], row[1]))
	}
}
