package oracle

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeasuresTheCPUTimeOfAProcess(t *testing.T) {
	own := Program{Name: "test", PID: os.Getpid()}
	then := map[Program]time.Duration{own: own.spent()}
	const enough = 5 * clockTick
	for range 1 << 40 { // busy on purpose; if the counter does not advance, the test times out
		if own.spent()-then[own] >= enough {
			break
		}
	}
	restarted := Program{Name: "test", PID: -1}
	got := used(map[Program]time.Duration{own: own.spent(), restarted: time.Second}, then)
	require.GreaterOrEqual(t, got[own], enough)
	require.Equal(t, time.Second, got[restarted])
}
