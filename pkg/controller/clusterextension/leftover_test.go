package clusterextension

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/test/env/proofs"
)

// What an existing extension owns is compared by its own run. Anything else with a proof is left behind.
func TestWhatAnExtensionLeavesBehind(t *testing.T) {
	t.Parallel()
	now := metav1.Now().Rfc3339Copy()
	ext := func(edit func(*olmv1.ClusterExtension)) *olmv1.ClusterExtension {
		out := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "uid", CreationTimestamp: now}}
		edit(out)
		return out
	}
	unchanged := func(*olmv1.ClusterExtension) {}
	for name, row := range map[string]struct {
		ext      *olmv1.ClusterExtension
		unproven bool
		want     bool
	}{
		"an extension that exists":            {ext: ext(unchanged)},
		"an extension that is deleted":        {ext: ext(func(e *olmv1.ClusterExtension) { e.DeletionTimestamp = &now }), want: true},
		"an extension that does not exist":    {ext: ext(func(e *olmv1.ClusterExtension) { e.UID = "" }), want: true},
		"a later extension with the name":     {ext: ext(func(e *olmv1.ClusterExtension) { e.CreationTimestamp = metav1.NewTime(now.Add(time.Hour)) }), want: true},
		"a user who has copied the labels":    {ext: ext(func(e *olmv1.ClusterExtension) { e.UID = "" }), unproven: true},
		"a user while the extension is there": {ext: ext(unchanged), unproven: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b", CreationTimestamp: now}}
			keys := proofs.Keys()
			owner := assess.Owner(ext(unchanged), "")
			owner.Proofs = keys
			proofs.Mark(binding, owner)
			if row.unproven {
				binding.Annotations = nil
			}
			s := leftover{Reconciler: &Reconciler{Options: Options{Proofs: keys}}, name: "demo", ext: row.ext}
			require.Equal(t, row.want, s.isLeft(binding))
		})
	}
}
