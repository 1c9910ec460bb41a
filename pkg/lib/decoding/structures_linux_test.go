package decoding

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// allocated returns the memory that a function allocates, in bytes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A ClusterServiceVersion of 1.5 MB took up to 113 MB while it was decoded, in each program and in each of its caches.
func TestAnObjectOfManyStructuresIsNotDecoded(t *testing.T) {
	r := repairer{olmScheme(t)}
	list := func(entry string) string {
		return "[" + strings.Repeat(entry+",", 1_400_000/(len(entry)+1)) + entry + "]"
	}
	version := func(deployments string) string {
		return `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"a"},"spec":{"displayName":"d",` +
			`"version":"1.0.0","install":{"strategy":"deployment","spec":{"deployments":` + deployments + `}}}}`
	}
	template := func(field, entries string) string {
		return version(`[{"name":"a","spec":{"template":{` + field + entries + `}}}]`)
	}
	for name, raw := range map[string]string{
		"deployments":    version(list(`{"name":"","spec":{}}`)),
		"nulls":          version(list(`null`)),
		"fewer nulls":    version("[" + strings.Repeat("null,", budget.MaxValues-1_000) + "null]"),
		"managed fields": template(`"metadata":{"managedFields":`, list(`{}`)+"}"),
		"numbers":        template(`"metadata":{"managedFields":`, list(`1`)+"}"),
		"containers":     template(`"spec":{"containers":`, list(`{"name":""}`)+"}"),
		"volumes":        template(`"spec":{"volumes":`, list(`{"name":""}`)+"}"),
		"subscription":   string(subscription(`{"tolerations":` + list(`{}`) + `}`)),
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, json.Valid([]byte(raw)))
			var out []byte
			memory := allocated(func() { out, _ = r.check([]byte(raw)) })
			t.Logf("%.1f MiB", float64(memory)/(1<<20))
			require.Less(t, memory, uint64(30<<20))
			require.Less(t, len(out), 1000)
			var kept operatorsv1alpha1.ClusterServiceVersion
			require.NoError(t, json.Unmarshal(out, &kept))
			require.Regexp(t, "more than (20000|50000) entries", budget.Refused(&kept).Error())
		})
	}
	status := version(`[]`)
	status = strings.TrimSuffix(status, "}") + `,"status":{"conditions":` + list("{}") + "}}"
	out, changed := r.check([]byte(status))
	require.True(t, changed)
	var kept operatorsv1alpha1.ClusterServiceVersion
	require.NoError(t, json.Unmarshal(out, &kept))
	require.NoError(t, budget.Refused(&kept), "a status alone does not make a version incomplete")
	require.Equal(t, "d", kept.Spec.DisplayName)
	require.Empty(t, kept.Status.Conditions)
}
