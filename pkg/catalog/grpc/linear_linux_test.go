package grpc

import (
	"fmt"
	"testing"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env/cputime"
)

// A message of a registry may contain 50,000 of each.
func TestPropertiesAndOlderAPIsTakeLinearTime(t *testing.T) {
	require.NoError(t, cputime.CheckLinear(3_000, func(n int) func() {
		bundle := &api.Bundle{}
		for i := range n {
			bundle.Properties = append(bundle.Properties, &api.Property{Type: fmt.Sprintf("a%d", i), Value: "1"})
			bundle.ProvidedApis = append(bundle.ProvidedApis, &api.GroupVersionKind{Group: "a", Version: "v", Kind: fmt.Sprint(i)})
		}
		return func() {
			properties, err := convertProperties(bundle)
			require.NoError(t, err)
			require.Len(t, properties, 2*n)
		}
	}))
}
