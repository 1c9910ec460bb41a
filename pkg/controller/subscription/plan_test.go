package subscription

import (
	"context"
	"crypto/rand"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env/proofs"
)

type reader struct{ content *catalog.Content }

func (r reader) Content(context.Context, string, string, string) (*catalog.Content, error) {
	return r.content, nil
}

// pinned returns a world whose catalog contains a bundle with the given manifest, and a plan that pins the bundle.
func pinned(manifest []byte) (*world, resolver.Plan) {
	content := &catalog.Content{Manifests: [][]byte{manifest}}
	plan := pins("a", "op.v1")
	plan.Pins[0].CatalogNamespace, plan.Pins[0].Catalog, plan.Pins[0].Digest = "ns", "cat", content.Digest()
	store := &catalog.Store{}
	store.Put(&catalog.Snapshot{Key: types.NamespacedName{Namespace: "ns", Name: "cat"}, Reader: reader{content}})
	return &world{namespace: "ns", input: resolver.Input{Namespace: "ns", Catalogs: store}}, plan
}

func TestAddsTheContentToAPlanIfItFits(t *testing.T) {
	noise := make([]byte, maxAnnotations)
	_, err := rand.Read(noise)
	require.NoError(t, err)
	for name, row := range map[string]struct {
		manifest []byte
		fits     bool
	}{"a large bundle": {make([]byte, 4<<20), true}, "noise": {noise, false}} {
		t.Run(name, func(t *testing.T) {
			w, plan := pinned(row.manifest)
			r := &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithScheme(proofs.Scheme()).Build()}}
			ip, err := r.ensurePlan(t.Context(), w, []*operatorsv1alpha1.Subscription{subscription("a", "")}, plan)
			require.NoError(t, err)
			_, err = plan.Restore(ip.Annotations[names.AnnotationContent])
			if row.fits {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, resolver.ErrNotKept)
		})
	}
}

func TestCreatesNoPlanIfTheContentHasChanged(t *testing.T) {
	w, plan := pinned([]byte("{}"))
	plan.Pins[0].Digest = "sha256:0"
	r := &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithScheme(proofs.Scheme()).Build()}}
	_, err := r.ensurePlan(t.Context(), w, []*operatorsv1alpha1.Subscription{subscription("a", "")}, plan)
	require.ErrorIs(t, err, resolver.ErrContent)
	require.Empty(t, w.plans)
}

func TestADeletedPlanIsRecreatedUnderANewName(t *testing.T) {
	w, plan := pinned([]byte("{}"))
	c := fake.NewClientBuilder().WithScheme(proofs.Scheme()).Build()
	r := &Reconciler{Options: Options{Client: c, Live: c}}
	sub, resolved := subscription("a", operatorsv1alpha1.ApprovalManual), subscription("a", operatorsv1alpha1.ApprovalManual)
	ensure := func(cached ...operatorsv1alpha1.InstallPlan) operatorsv1alpha1.InstallPlan {
		t.Helper()
		w.subscriptions, w.plans, w.found = []operatorsv1alpha1.Subscription{*sub}, cached, nil
		ip, err := r.ensurePlan(t.Context(), w, []*operatorsv1alpha1.Subscription{resolved}, plan)
		require.NoError(t, err)
		sub.Status.InstallPlanRef = &corev1.ObjectReference{Name: ip.Name}
		return *ip
	}
	first := ensure()
	require.Equal(t, first.Name, ensure().Name, "the cache does not show the plan yet")
	require.Equal(t, first.Name, ensure(first).Name)

	require.NoError(t, c.Delete(t.Context(), &first))
	second := ensure()
	require.NotEqual(t, first.Name, second.Name)
	require.False(t, second.Spec.Approved)
	_, err := resolver.Decode("ns", second.Name, second.Annotations[names.AnnotationPlan])
	require.NoError(t, err)
	require.Equal(t, second.Name, ensure().Name, "the cache does not show the plan yet")
	require.Equal(t, second.Name, ensure(second).Name)

	require.NoError(t, c.Delete(t.Context(), &second))
	require.NotEqual(t, second.Name, ensure().Name)
}
