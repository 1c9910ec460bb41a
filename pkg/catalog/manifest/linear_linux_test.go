package manifest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Four times as many APIs take four times as long, not 16 times: a ConfigMap of 1 MB contains 35,000 of them. CPU time does not depend on
// what else the machine does.
func TestManyAPIsTakeLinearTime(t *testing.T) {
	describe := func(n int) time.Duration {
		var owned []string
		for i := range n {
			owned = append(owned, fmt.Sprintf(`{"name":"%d.b","version":"v","kind":"%d"}`, i, i))
		}
		csv := `{"kind":"ClusterServiceVersion","metadata":{"name":"a"},"spec":{"customresourcedefinitions":{"owned":[` + strings.Join(owned, ",") + `]}}}`
		content := &catalog.Content{Manifests: [][]byte{[]byte(csv)}}
		return cpu(func() {
			d, err := Describe("p", content)
			require.NoError(t, err)
			require.Len(t, d.Properties, n)
		})
	}
	few := max(describe(3_000), 10*time.Millisecond)
	require.Less(t, describe(12_000), 8*few)
}

// cpu returns the lowest CPU time of a few runs.
func cpu(work func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	best := time.Duration(1<<63 - 1)
	for range 3 {
		runtime.GC()
		start := threadTime()
		work()
		best = min(best, threadTime()-start)
	}
	return best
}

func threadTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
