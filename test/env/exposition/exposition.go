// Package exposition lets tests compare the samples that collectors return.
package exposition

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
)

// Lines returns the samples of the collectors in Prometheus' text format, sorted and without HELP and TYPE lines. It fails
// the test if a sample is inconsistent with its description.
func Lines(t *testing.T, all ...prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, one := range all {
		require.NoError(t, registry.Register(one))
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		require.NoError(t, err)
	}
	lines := slices.DeleteFunc(strings.Split(text.String(), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#")
	})
	slices.Sort(lines)
	return lines
}
