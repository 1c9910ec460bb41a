package csv

import (
	"context"
	"errors"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// metadataOnly is a cache of copies.
type metadataOnly struct {
	cache.Cache
	reader client.Reader
}

func (m metadataOnly) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return m.reader.Get(ctx, key, obj, opts...)
}

// A copy can have more than a MiB, and the cache contains only the metadata of those that are labeled. The original may not exist.
func TestACopyIsFinalizedByItsMetadata(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	copied := func(name string, finalizers ...string) *operatorsv1alpha1.ClusterServiceVersion {
		out := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
			Namespace: "t1", Name: name, UID: "u", DeletionTimestamp: &now, Finalizers: finalizers, Labels: map[string]string{names.LabelCopiedFrom: "gone"},
		}}
		out.Spec.Description = "large"
		return out
	}
	stored := indexed(t, copied("stuck.v1", names.FinalizerCSV, "a/b"), copied("others.v1", "a/b"))
	reads := 0
	full := errors.New("the whole object was requested")
	of := func(obj client.Object) error {
		if _, ok := obj.(*metav1.PartialObjectMetadata); !ok {
			return full
		}
		reads++
		return nil
	}
	live := interceptor.NewClient(stored.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return errors.Join(of(obj), c.Get(ctx, key, obj, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return errors.Join(of(obj), c.Patch(ctx, obj, patch, opts...))
		},
	})
	r := &Reconciler{Options: Options{Client: live, Live: live, Copies: metadataOnly{reader: stored}}}
	read := func(name string) (*scope, bool) {
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		labeled, err := r.labeled(t.Context(), client.ObjectKey{Namespace: "t1", Name: name})
		require.NoError(t, err)
		exists, err := r.readStuck(t.Context(), labeled, csv)
		require.NoError(t, err)
		return &scope{csv: csv}, exists
	}
	_, exists := read("others.v1")
	require.False(t, exists, "finalizers of others are of no concern")
	require.Zero(t, reads)

	s, exists := read("stuck.v1")
	require.True(t, exists)
	require.Equal(t, "gone", s.csv.Labels[names.LabelCopiedFrom])
	deleted, err := r.isDeleted(t.Context(), s)
	require.NoError(t, err)
	require.False(t, deleted)
	require.NoError(t, r.dropFinalizer(t.Context(), s, nil))
	left := copied("")
	require.NoError(t, stored.Get(t.Context(), client.ObjectKeyFromObject(s.csv), left))
	require.Equal(t, []string{"a/b"}, left.Finalizers)
	require.Equal(t, "large", left.Spec.Description)
}
