package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/test/env/cputime"
)

// A ConfigMap of 1 MB contains 35,000 APIs.
func TestManyAPIsTakeLinearTime(t *testing.T) {
	require.NoError(t, cputime.CheckLinear(3_000, func(n int) func() {
		var owned []string
		for i := range n {
			owned = append(owned, fmt.Sprintf(`{"name":"%d.b","version":"v","kind":"%d"}`, i, i))
		}
		csv := `{"kind":"ClusterServiceVersion","metadata":{"name":"a"},"spec":{"customresourcedefinitions":{"owned":[` + strings.Join(owned, ",") + `]}}}`
		content := &catalog.Content{Manifests: [][]byte{[]byte(csv)}}
		return func() {
			d, err := Describe("p", content)
			require.NoError(t, err)
			require.Len(t, d.Properties, n)
		}
	}))
}
