package clusterextension

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/excess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/proofs"
)

// If the name of a deleted extension is the label of one that exists, its objects are not compared with the identity of that one.
func TestTheLabelOfAnotherExtensionKeepsNothing(t *testing.T) {
	t.Parallel()
	now := metav1.Now().Rfc3339Copy()
	other := olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("long-", 13), UID: "uid", CreationTimestamp: now}}
	name := ownerutil.LabelValue(other.Name)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b", CreationTimestamp: now}}
	keys := proofs.Keys()
	owner := assess.Owner(&olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "gone", CreationTimestamp: now}}, "")
	owner.Proofs = keys
	proofs.Mark(binding, owner)
	for _, deleted := range []*metav1.Time{nil, &now} {
		other.DeletionTimestamp = deleted
		for _, s := range (&Reconciler{Options: Options{Proofs: keys}}).sharing([]olmv1.ClusterExtension{other}, name) {
			require.Equal(t, !s.isOther, s.isLeft(binding))
			require.Equal(t, !s.isOther, s.identity.Extension == name)
		}
	}
}

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
		"both, and its own is deleted":        {exts: []*olmv1.ClusterExtension{deleted, other}, want: true},
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
				var found []string
				for _, s := range (&Reconciler{Options: Options{Proofs: keys}}).sharing(all, name) {
					if s.isLeft(binding) {
						found = append(found, s.ext.Name)
					}
				}
				if !row.want {
					require.Empty(t, found)
					continue
				}
				// It is compared with its own identity, if that is known, even if another extension is named like the label.
				of := name
				if slices.ContainsFunc(all, func(e olmv1.ClusterExtension) bool { return e.DeletionTimestamp != nil }) {
					of = long
				}
				require.Equal(t, []string{of}, found)
			}
		})
	}
}

// Users choose the label with the name. What Remit created for one extension is not compared with the identity of another.
func TestTheMarkDecidesWhichExtensionLeftAnObject(t *testing.T) {
	t.Parallel()
	now := metav1.Now().Rfc3339Copy()
	u := givenUnit(t, interceptor.Funcs{}, extension("victim"))
	for _, name := range []string{"mine", "victim", strings.Repeat("long-", 13)} {
		owner := assess.Owner(&olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "gone", CreationTimestamp: now}}, "")
		owner.Proofs = u.Proofs
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "b", CreationTimestamp: metav1.NewTime(now.Add(-24 * time.Hour))}}
		proofs.Mark(binding, owner)
		require.Len(t, u.orphaned(t.Context(), binding), 1, name)
		s := &leftover{Reconciler: u.Reconciler, ext: &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: ownerutil.LabelValue(name)}}}
		require.True(t, s.isLeft(binding), name)
		if name == "victim" {
			continue
		}
		binding.Labels[names.LabelExtensionName] = "victim"
		require.Empty(t, u.orphaned(t.Context(), binding), name)
		s.ext.Name = "victim"
		require.False(t, s.isLeft(binding), name)
	}
}

// Users can create thousands of roles and bindings that name many owners. All of them are examined before the controller starts.
func TestOwnersOfAnObjectAreLookedUpOnceIfItIsProven(t *testing.T) {
	t.Parallel()
	var reads atomic.Int32
	u := givenUnit(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		reads.Add(1)
		return c.Get(ctx, key, obj, opts...)
	}})
	owner := assess.Owner(&olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "mine", UID: "gone", CreationTimestamp: metav1.Now()}}, "")
	owner.Proofs = u.Proofs
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b", UID: "b", CreationTimestamp: metav1.Now()}}
	proofs.Mark(binding, owner)
	for i := range 100 {
		binding.OwnerReferences = append(binding.OwnerReferences, metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.KindClusterExtension,
			Name: fmt.Sprintf("%063d", i)})
	}
	require.NotEmpty(t, u.orphaned(t.Context(), binding))
	require.LessOrEqual(t, reads.Swap(0), int32(len(binding.OwnerReferences)+1))
	binding.Annotations = nil
	require.Empty(t, u.orphaned(t.Context(), binding))
	require.Zero(t, reads.Load(), "a user has copied the labels")
}

// The ServiceAccount of a namespace that was created after the extension was written may belong to other users (docs/adr/0083).
func TestLeftoversAreNotRemovedAsTheAccountOfARecreatedNamespace(t *testing.T) {
	t.Parallel()
	since := func(created time.Time) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "ns", CreationTimestamp: metav1.NewTime(created)}}
	}
	recordedAs := func(uid string) func(*olmv1.ClusterExtension) {
		return func(e *olmv1.ClusterExtension) {
			e.Status.Namespace = &olmv1.NamespaceRecord{UID: uid, ServiceAccountUID: "1", Generation: e.Generation}
		}
	}
	old, later := time.Now().Add(-2*time.Hour), time.Now()
	for name, row := range map[string]struct {
		edits     []func(*olmv1.ClusterExtension)
		namespace *corev1.Namespace
		want      scoped.Reason
	}{
		"an older namespace":                     {nil, since(old), ""},
		"a newer namespace":                      {nil, since(later), scoped.NamespaceRecreated},
		"the recorded namespace":                 {[]func(*olmv1.ClusterExtension){recordedAs("ns")}, since(later), ""},
		"another namespace than the recorded":    {[]func(*olmv1.ClusterExtension){recordedAs("another")}, since(old), scoped.NamespaceRecreated},
		"a newer namespace, while it is deleted": {[]func(*olmv1.ClusterExtension){deleting}, since(later), scoped.NamespaceRecreated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ext := extension("a", append(row.edits, asInstaller)...)
			u := givenUnit(t, interceptor.Funcs{}, ext, installer("1"), row.namespace)
			u.Live = u.Client
			clients := &opened{}
			u.Clients = clients
			s := &leftover{Reconciler: u.Reconciler, ext: ext, identity: assess.Identity(ext)}
			_, err := s.client(t.Context())
			require.Equal(t, row.want, scoped.ReasonOf(err), err)
			require.Len(t, clients.as, map[bool]int{true: 1}[row.want == ""])
			require.Equal(t, extension("a", append(row.edits, asInstaller)...).Status, ext.Status, "the record belongs to runs")
		})
	}
}

// The pause after an attempt does not delay the report that the grace period of another object is over.
func TestThePauseOfALeftoverKeepsOtherTimes(t *testing.T) {
	t.Parallel()
	u := givenUnit(t, interceptor.Funcs{}, extension("a", asInstaller))
	u.attempts = &excess.Timers[string]{}
	u.attempts.Pause("a", u.Clock.Now())
	s := &leftover{Reconciler: u.Reconciler, ext: extension("a", asInstaller)}
	due := []excess.Object{{Object: &rbacv1.ClusterRole{}}}
	after, err := s.carryOut(t.Context(), excess.Plan{Reported: due, Due: due, After: time.Second})
	require.NoError(t, err)
	require.Equal(t, time.Second, after)
}
