package scoped

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pages is a reader of a namespace with a number of ClusterServiceVersions, or of endlessly many if it is negative.
type pages struct {
	client.Reader
	test  *testing.T
	total int
	asked int
}

func (p *pages) List(_ context.Context, obj client.ObjectList, opts ...client.ListOption) error {
	list, ok := obj.(*metav1.PartialObjectMetadataList)
	require.True(p.test, ok, "only metadata is read, but the list is a %T", obj)
	o := (&client.ListOptions{}).ApplyOptions(opts)
	require.Equal(p.test, "ns", o.Namespace)
	if p.asked > 0 {
		require.Equal(p.test, strconv.Itoa(p.asked), o.Continue)
	}
	require.Positive(p.test, o.Limit)
	require.LessOrEqual(p.test, o.Limit, int64(25), "pages of at most 25 objects")
	for range o.Limit {
		if p.asked == p.total {
			return nil
		}
		p.asked++
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: strconv.Itoa(p.asked)}})
	}
	list.Continue = strconv.Itoa(p.asked)
	return nil
}

// A ClusterServiceVersion of 1.3 MB takes up to 35 MiB in memory: a namespace with 30 of them would exceed the memory of the program.
func TestListsClusterServiceVersionsInSmallPagesOfMetadata(t *testing.T) {
	seen := map[string]bool{}
	require.NoError(t, EachVersion(t.Context(), &pages{test: t, total: 60}, "ns", func(csv *metav1.PartialObjectMetadata) { seen[csv.Name] = true }))
	require.Len(t, seen, 60)
	endless := &pages{test: t, total: -1}
	require.ErrorContains(t, EachVersion(t.Context(), endless, "ns", func(*metav1.PartialObjectMetadata) {}), "more than 10000 ClusterServiceVersions")
	require.Equal(t, 10_000, endless.asked)
}
