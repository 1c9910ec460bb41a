package csv

import (
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// The account itself may not change the record if the label requires the use of every account. The record also bounds webhooks.
func TestRecordsTheLastAccount(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		ofAny  bool
		before string
		asSelf bool
	}{
		"the first":                 {},
		"the next":                  {before: "ns/earlier", asSelf: true},
		"the first, with the label": {ofAny: true, asSelf: true},
		"the next, with the label":  {ofAny: true, before: "ns/earlier", asSelf: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			editing(func(c *operatorsv1alpha1.ClusterServiceVersion) {
				c.Annotations, c.Labels = nil, nil
				if row.before != "" {
					c.Annotations = map[string]string{names.AnnotationAccount: row.before}
				}
				if row.ofAny {
					c.Labels = map[string]string{names.LabelAnyAccount: ""}
				}
			})(w)
			got := w.settle()
			require.Equal(t, row.asSelf, slices.Contains(got.writes, "remit: patch ClusterServiceVersion t1/demo.v1.0.0"), "as the controller identity: %v", got.writes)
			require.True(t, w.Has(w.csv))
			require.Equal(t, "t1/acct", w.csv.Annotations[names.AnnotationAccount])
		})
	}
}
