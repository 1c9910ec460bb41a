package clusterextension

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/proofs"
)

// What an existing extension owns is compared by its own run. Anything else with a proof is left behind.
func TestWhatAnExtensionLeavesBehind(t *testing.T) {
	t.Parallel()
	now := metav1.Now().Rfc3339Copy()
	long := strings.Repeat("long-", 13)
	ext := func(edit func(*olmv1.ClusterExtension)) *olmv1.ClusterExtension {
		out := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: long, UID: "uid", CreationTimestamp: now}}
		edit(out)
		return out
	}
	unchanged := func(*olmv1.ClusterExtension) {}
	deleted := ext(func(e *olmv1.ClusterExtension) { e.DeletionTimestamp = &now })
	later := ext(func(e *olmv1.ClusterExtension) { e.CreationTimestamp = metav1.NewTime(now.Add(time.Hour)) })
	other := ext(func(e *olmv1.ClusterExtension) { e.UID, e.Name = "other", ownerutil.LabelValue(long) })
	for name, row := range map[string]struct {
		exts     []*olmv1.ClusterExtension
		unproven bool
		want     bool
	}{
		"an extension that exists":            {exts: []*olmv1.ClusterExtension{ext(unchanged)}},
		"an extension that is deleted":        {exts: []*olmv1.ClusterExtension{deleted}, want: true},
		"an extension that does not exist":    {want: true},
		"a later extension with the name":     {exts: []*olmv1.ClusterExtension{later}, want: true},
		"an extension named like the label":   {exts: []*olmv1.ClusterExtension{ext(unchanged), other}},
		"only one named like the label":       {exts: []*olmv1.ClusterExtension{other}, want: true},
		"a user who has copied the labels":    {unproven: true},
		"a user while the extension is there": {exts: []*olmv1.ClusterExtension{ext(unchanged)}, unproven: true},
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
			for _, name := range []string{long, ownerutil.LabelValue(long)} {
				var all []olmv1.ClusterExtension
				for _, e := range row.exts {
					all = append(all, *e)
				}
				s := leftover{Reconciler: &Reconciler{Options: Options{Proofs: keys}}, name: name}
				s.ext, s.existing = sharing(all, name)
				require.Equal(t, row.want, s.isLeft(binding))
			}
		})
	}
}
