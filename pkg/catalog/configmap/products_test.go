package configmap

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
)

// list returns n elements of a JSON list. The format gets the number of the element, also as the second argument.
func list(n int, format string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = fmt.Sprintf(format, i, i+1)
	}
	return "[" + strings.Join(elements, ",") + "]"
}

// Each package and each version contains its manifests, and each channel its versions, so their sizes multiply.
func TestSizesInALegacyConfigMapDoNotMultiply(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	const refused = "the packages of the ConfigMap would need at least"
	for name, row := range map[string]struct{ csvs, crds, packages, want string }{
		"packages × CSV": {
			`[{"kind":"ClusterServiceVersion","metadata":{"name":"a0"},"spec":{"version":"1.0.0","description":"` + long + `"}}]`, "[]",
			list(400, `{"packageName":"p%d","channels":[{"name":"c%d","currentCSV":"a0"}]}`), refused,
		},
		"versions × CRD": {
			list(500, `{"kind":"ClusterServiceVersion","metadata":{"name":"a%d"},"spec":{"replaces":"a%d","customresourcedefinitions":{"owned":[{"name":"a.b.c"}]}}}`),
			`[{"kind":"CustomResourceDefinition","metadata":{"name":"a.b.c"},"x":"` + long + `"}]`,
			`[{"packageName":"p","channels":[{"name":"c","currentCSV":"a0"}]}]`, refused,
		},
		"channels × versions": {
			list(1_000, `{"kind":"ClusterServiceVersion","metadata":{"name":"a%d"},"spec":{"replaces":"a%d"}}`), "[]",
			`[{"packageName":"p","defaultChannel":"c0","channels":` + list(3_000, `{"name":"c%d","currentCSV":"a0","n":%d}`) + `}]`, refused,
		},
		"packages × properties": {
			`[{"kind":"ClusterServiceVersion","metadata":{"name":"a0"},"spec":{"customresourcedefinitions":{"owned":` + list(3_000, `{"name":"%d","version":"v","kind":"%d"}`) + `}}}]`, "[]",
			list(300, `{"packageName":"p%d","channels":[{"name":"c%d","currentCSV":"a0"}]}`), refused,
		},
		"a CRD that is named many times": {
			`[{"kind":"ClusterServiceVersion","metadata":{"name":"a0"},"spec":{"customresourcedefinitions":{"owned":` + list(1_000, `{"name":"a.b.c","n":"%d,%d"}`) + `}}}]`,
			`[{"kind":"CustomResourceDefinition","metadata":{"name":"a.b.c"},"x":"` + long + `"}]`,
			`[{"packageName":"p","channels":[{"name":"c","currentCSV":"a0"}]}]`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cm := &corev1.ConfigMap{Data: map[string]string{KeyCSVs: row.csvs, KeyCRDs: row.crds, KeyPackages: row.packages}}
			require.Less(t, len(row.csvs)+len(row.crds)+len(row.packages), 1<<20, "it fits into a ConfigMap")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Load(t.Context(), cm, fbc.Loader{Limits: catalog.TenantDecoding()})
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30), "including what is freed on the way")
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.want)
		})
	}
}
