package existing

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A slow machine ends a costly validation by its CPU time before it has taken much memory.
func TestTheMemoryOfTheValidationProcessIsLimited(t *testing.T) {
	const child = "REMIT_TEST_LIMIT"
	if os.Getenv(child) != "" {
		require.NoError(t, limit(60))
		var data, cpu syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(rlimitData, &data))
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_CPU, &cpu))
		fmt.Printf("limits: %d %t\n", data.Cur, cpu.Cur < 120)
		return
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheMemoryOfTheValidationProcessIsLimited$")
	c.Env = append(os.Environ(), child+"=1")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), fmt.Sprintf("limits: %d true\n", MaxMemory))
}
