package controller

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/controller/catalogsource"
	"github.com/remit-olm/remit/pkg/controller/installplan"
	"github.com/remit-olm/remit/pkg/controller/subscription"
	"github.com/remit-olm/remit/pkg/step/existing"
)

// idle is what remit-catalog takes without the work for tenants, in MiB.
const idle = 100

// The budgets of remit-catalog were limited one by one, and allowed twice the memory of its container together.
func TestAllBudgetsOfCatalogFitIntoItsLimit(t *testing.T) {
	text, err := os.ReadFile("../../manifests/base/catalog-deployment.yaml")
	require.NoError(t, err)
	mebibytes := func(pattern string) int64 {
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		require.NotNil(t, found, pattern)
		n, err := strconv.ParseInt(string(found[1]), 10, 64)
		require.NoError(t, err)
		return n
	}
	sum, record := int64(idle), ""
	for _, part := range []struct {
		name  string
		bytes int64
	}{
		{"catalogs, what is decoded, and messages of registries", catalogsource.MaxMemory},
		{"layers of catalogs in images", catalogsource.MaxLayers},
		{"resolutions", subscription.MaxMemory()},
		{"InstallPlans", installplan.MaxMemory},
		{"large texts of bundles that are converted", bundle.MaxMemory},
	} {
		sum += part.bytes >> 20
		record += fmt.Sprintf("| %s | %d MiB |\n", part.name, part.bytes>>20)
	}
	record += fmt.Sprintf("| the program without these | %d MiB |\n| together, of the %d MiB of GOMEMLIMIT | %d MiB |\n", idle, mebibytes(`GOMEMLIMIT\n\s+value: (\d+)MiB\n`), sum)
	record += fmt.Sprintf("| the process that validates objects | %d MiB |\n", existing.MaxMemory>>20)
	require.LessOrEqual(t, sum, mebibytes(`GOMEMLIMIT\n\s+value: (\d+)MiB\n`))
	require.Less(t, sum+existing.MaxMemory>>20, mebibytes(`limits:\n\s+memory: (\d+)Mi\n`))
	adr, err := os.ReadFile("../../docs/adr/0091-plans-that-take-much-memory-take-turns.md")
	require.NoError(t, err)
	require.Contains(t, string(adr), record)
}
