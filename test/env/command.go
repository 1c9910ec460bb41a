package env

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Remit runs "kubectl remit" as the cluster administrator.
func (c *Cluster) Remit(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.Bin, "kubectl-remit"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	var out, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &notes
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return out.String(), notes.String(), cmd.ProcessState.ExitCode()
}

// RemitStatus returns the output of "kubectl remit status" for the tenant's namespace.
func (tn *Tenant) RemitStatus() string {
	tn.T.Helper()
	stdout, stderr, _ := tn.Cluster.Remit(tn.T, "status", "-n", tn.Namespace)
	return stdout + stderr
}
