package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
)

// An error repeats what a cluster, a file or a user says.
func TestErrorsCarryNoTerminalEscapes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := execute(t.Context(), []string{"status", "--kubeconfig=/nonexistent/\x1b]0;owned\x07\u202e"}, &stdout, &stderr)
	require.Equal(t, cli.CodeError, code)
	require.Contains(t, stderr.String(), "/nonexistent/\uFFFD]0;owned\uFFFD\uFFFD")
	require.NotContains(t, stderr.String(), "\x1b")
}

func TestEveryCommandPrintsWithoutTerminalEscapes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	for _, sub := range printing(&stdout, &stderr).Commands() {
		require.IsType(t, &cli.Writer{}, sub.OutOrStdout(), sub.Name())
		require.IsType(t, &cli.Writer{}, sub.ErrOrStderr(), sub.Name())
	}
}
