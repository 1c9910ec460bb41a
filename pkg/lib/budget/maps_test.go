package budget

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/remit-olm/remit/test/env/racing"
)

// A quantity below a billionth took three times what was counted, because it is a pointer to its digits. The free slots of a map are not
// counted; with them, it takes up to twice as much.
func TestMapsOfQuantitiesTakeWhatIsCounted(t *testing.T) {
	if racing.Slowdown > 1 {
		t.Skip("the race detector allocates each small string alone")
	}
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, quantity := range []string{"1", "1.1e-9", "123456789012345678901234567890"} {
		for _, n := range []int{8_000, 80_000} {
			entries := make([]string, n)
			for i := range entries {
				entries[i] = fmt.Sprintf("%q:%q", fmt.Sprintf("%06d", i), quantity)
			}
			text := []byte("{" + strings.Join(entries, ",") + "}")
			before := used()
			var all corev1.ResourceList
			require.NoError(t, json.Unmarshal(text, &all))
			took := used() - before
			require.LessOrEqual(t, took, 2*Of(all).Memory, "%d of %s", n, quantity)
			runtime.KeepAlive(all)
			runtime.KeepAlive(text)
			runtime.KeepAlive(entries)
		}
	}
}

// As many digits as a quantity may have take 95 bytes.
func TestDigitsOfQuantitiesTakeWhatIsCounted(t *testing.T) {
	for _, digits := range []int{30, 60, maxDigits - 1} {
		all, text := make([]resource.Quantity, 10_000), []byte(`"`+strings.Repeat("7", digits)+`"`)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range all {
			require.NoError(t, all[i].UnmarshalJSON(text))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		took := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(len(all))
		t.Logf("%d digits: %d bytes", digits, took)
		require.LessOrEqual(t, took, int64(decimalBytes))
		runtime.KeepAlive(all)
	}
}
