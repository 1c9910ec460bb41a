package excess

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestEachObjectHasItsOwnGracePeriod(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Minute
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	of := func(uid types.UID) Object {
		return Object{Object: &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{UID: uid}}}
	}
	a, b, claimed := of("a"), of("b"), of("claimed")
	isClaimed := func(o client.Object) bool { return o.GetUID() == "claimed" }
	var ages Ages
	for _, step := range []struct {
		at            time.Duration
		found         []Object
		reported, due []Object
		after         time.Duration
	}{
		{at: 0, found: []Object{a, claimed}, after: time.Minute}, // the garbage collector may still delete them
		{at: time.Minute, found: []Object{a, claimed}, reported: []Object{a}, after: 9 * time.Minute},
		{at: 9 * time.Minute, found: []Object{a, b, claimed}, reported: []Object{a}, after: time.Minute},
		{at: 10 * time.Minute, found: []Object{a, b, claimed}, reported: []Object{a, b, claimed}, due: []Object{a}, after: 9 * time.Minute},
		{at: 20 * time.Minute, found: []Object{a, claimed}, reported: []Object{a, claimed}, due: []Object{a, claimed}},
		{at: 20 * time.Minute, found: []Object{b}, after: time.Minute}, // it did not exceed the account in between
		{at: 21 * time.Minute},
		{at: 30 * time.Minute, found: []Object{a}, after: time.Minute},
	} {
		got := ages.Plan("ns", start.Add(step.at), grace, step.found, isClaimed)
		require.Equal(t, step.reported, got.Reported, step.at)
		require.Equal(t, step.due, got.Due, step.at)
		require.Equal(t, step.after, got.After, step.at)
	}
}
