package csv

import (
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// The account may not change the record of a ClusterServiceVersion whose label requires the use of every account.
func TestRecordsTheLastAccountWithoutTheLabel(t *testing.T) {
	t.Parallel()
	for _, ofAny := range []bool{false, true} {
		w := newWorld(t)
		editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
			if c.Annotations = map[string]string{names.AnnotationAccount: "ns/earlier"}; ofAny {
				c.Labels = map[string]string{names.LabelAnyAccount: ""}
			}
		})(w)
		got := w.settle()
		require.Equal(t, !ofAny, slices.Contains(got.writes, "remit: patch ClusterServiceVersion t1/demo.v1.0.0"), "as the controller identity: %v", got.writes)
		require.True(t, w.Has(w.csv))
		require.Equal(t, ofAny, w.csv.Annotations[names.AnnotationAccount] == "ns/earlier")
	}
}
