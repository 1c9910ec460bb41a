// Package alone runs tests that measure the memory of their process in a process of their own. What other tests of the package leave
// behind, or allocate in the background, would count.
package alone

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// variable is set in the process of a measurement.
const variable = "REMIT_TEST_ALONE"

// Is returns true in the process of the test. Otherwise, it runs the test in such a process, and returns false after that has succeeded.
func Is(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"=1")
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Contains(t, string(said), "--- PASS: "+t.Name())
	return false
}
