package execute

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestFieldsAreRemovedWithinLimits(t *testing.T) {
	object := func(fields int) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"kind": "X"}}
		for i := range fields {
			obj.Object[fmt.Sprint("f", i)] = "x"
		}
		return obj
	}
	obj, sent := object(MaxPrunings+1), object(MaxPrunings+1)
	p := Pruned{}
	require.False(t, p.remove(obj, sent, nil))
	require.False(t, p.remove(obj, sent, []string{".absent"}), "what cannot be found is not tried again")
	p = Pruned{}
	for i := range MaxPrunings {
		require.True(t, p.remove(obj, sent, []string{fmt.Sprint(".f", i)}))
	}
	require.False(t, p.remove(obj, sent, []string{fmt.Sprint(".f", MaxPrunings)}))
	require.Equal(t, obj, sent)
	for range MaxAllPrunings/MaxPrunings - 1 {
		other := object(MaxPrunings)
		for i := range MaxPrunings {
			require.True(t, p.remove(other, other.DeepCopy(), []string{fmt.Sprint(".f", i)}))
		}
	}
	other := object(1)
	require.False(t, p.remove(other, other.DeepCopy(), []string{".f0"}))
	require.Len(t, p.Of(obj), MaxPrunings)
	require.Empty(t, p.Of(sent))

	var all []string
	for i := range MaxPruned + 1 {
		all = append(all, fmt.Sprint(".f", i))
	}
	require.False(t, Pruned{}.remove(obj, sent, all))
	require.False(t, Pruned(nil).remove(obj, sent, all[:1]))
}
