package packages

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
)

// The server keeps the labels that packages had before, for watches.
func TestAPackageHasFewLabels(t *testing.T) {
	csv := map[string]string{}
	for i := range 64 {
		csv[fmt.Sprintf("%sa%02d", packagesv1.PrefixArch, i)] = packagesv1.ValueSupported
		csv[fmt.Sprintf("%so%02d", packagesv1.PrefixOS, i)] = packagesv1.ValueSupported
	}
	got := labelsOf("provider", "url", csv)
	require.Len(t, got, 8+8+2, "and the provider's name and address")
	require.Contains(t, got, packagesv1.PrefixArch+"a07")
	require.Contains(t, got, packagesv1.PrefixOS+"o07")
}
