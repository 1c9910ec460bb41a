package bundle_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
)

// The three bytes of "{}," take hundreds of bytes in memory, several times: in the unstructured object, in the typed one, and in
// each copy.
func TestListsOfEmptyEntriesAreRefused(t *testing.T) {
	csv := func(n int) string {
		return `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"op.v1"},"spec":{"install":{"strategy":"deployment",
"spec":{"deployments":[{"name":"op","spec":{"template":{"spec":{"volumes":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}}}}]}}}}`
	}
	for want, n := range map[string]int{
		"manifest 1 (ClusterServiceVersion \"op.v1\"): manifest would need about 328 MiB of memory; at most 96 are allowed: use fewer list entries": 500_000,
		"ClusterServiceVersion \"op.v1\": more than 20000 entries of lists and objects together":                                                    100_000,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: [][]byte{[]byte(csv(n))}})
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, want)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(400<<20))
	}
	_, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: [][]byte{[]byte(csv(10_000))}})
	require.NoError(t, err)
	deployments := strings.Replace(csv(1), `{"name":"op"`, strings.Repeat(`{"name":"","spec":{}},`, 9_900)+`{"name":"op"`, 1)
	_, err = bundle.ParseContent(t.Context(), &catalog.Content{Manifests: [][]byte{[]byte(deployments)}})
	require.ErrorContains(t, err, "ClusterServiceVersion \"op.v1\": the object needs ")
}

// Fields without a value are shorter as YAML, which is estimated before, than as JSON.
func TestTheMemoryOfAManifestIsLimited(t *testing.T) {
	for n, want := range map[int]string{30_000: "", 35_000: "manifest would need about 43 MiB of memory; at most 40 are allowed"} {
		text := "{kind: ConfigMap, apiVersion: v1, metadata: {name: x}, z: [" + strings.TrimSuffix(strings.Repeat("{a,b,c,d},", n), ",") + "]}"
		_, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: [][]byte{[]byte(text)}})
		if require.Error(t, err); want == "" {
			require.NotContains(t, err.Error(), "memory")
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

// A worker that parses a bundle within a smaller limit holds no more text than that allows.
func TestTextCountsBeforeItIsParsed(t *testing.T) {
	comment := []byte("#" + strings.Repeat(" x", 1<<20) + "\n")
	manifests := [][]byte{comment, comment, comment, []byte("kind: {")}
	_, err := bundle.ParseWithin(t.Context(), &catalog.Content{Manifests: manifests}, bundle.MaxBundleCost)
	require.ErrorContains(t, err, "manifest 4")
	_, err = bundle.ParseWithin(t.Context(), &catalog.Content{Manifests: manifests}, 16<<20)
	var costly *bundle.CostError
	require.ErrorAs(t, err, &costly, "it has been parsed")
	require.EqualValues(t, 16<<20, costly.Limit)
}

// A registry may send YAML, whose decoding takes much more memory than its text: 4 MiB took more than a gigabyte.
func TestCostlyYAMLIsNotDecoded(t *testing.T) {
	text := "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\nz: [" + strings.Repeat("a: ,", 1<<20-100) + "]\n"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: [][]byte{[]byte(text)}})
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "MiB of memory; at most 96 are allowed")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
}

// Each manifest is limited, but what is omitted takes as long to convert as an object, and a bundle has many manifests.
func TestTheTextsOfABundleHaveACommonLimit(t *testing.T) {
	content := &catalog.Content{}
	for range 8 {
		content.Manifests = append(content.Manifests, []byte("["+strings.Repeat("1,", 250_000)+"]"))
	}
	_, err := bundle.ParseContent(t.Context(), content)
	require.EqualError(t, err, "the manifests of the bundle have too many values: converting all of them would need more than 512 MiB of memory; use fewer list entries")
}
