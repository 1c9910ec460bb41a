package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
)

// Errors quote untrusted text from clusters, files and users.
func TestErrorsHaveNoTerminalEscapes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := execute(t.Context(), []string{"status", "--kubeconfig=/nonexistent/\x1b]0;owned\x07\u202e"}, &stdout, &stderr)
	require.Equal(t, cli.CodeError, code)
	require.Contains(t, stderr.String(), "/nonexistent/\uFFFD]0;owned\uFFFD\uFFFD")
	require.NotContains(t, stderr.String(), "\x1b")
}

func TestEveryCommandPrintsNoTerminalEscapes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	for _, sub := range printing(&stdout, &stderr).Commands() {
		require.IsType(t, &cli.Writer{}, sub.OutOrStdout(), sub.Name())
		require.IsType(t, &cli.Writer{}, sub.ErrOrStderr(), sub.Name())
	}
}

func TestEveryCommandNamesMissingArgumentsAndShowsItsUsage(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if !cmd.Runnable() {
			return
		}
		path := strings.Fields(cmd.CommandPath())[2:] // without "kubectl remit"
		run := func(args ...string) string {
			var stderr bytes.Buffer
			require.Equal(t, cli.CodeError, execute(t.Context(), append(path, args...), &bytes.Buffer{}, &stderr), "%q %q", path, args)
			return stderr.String()
		}
		_, operand, _ := strings.Cut(cmd.Use, " ")
		operand, _, _ = strings.Cut(operand, " --")
		if cmd.HasSubCommands() && operand == "" {
			require.Contains(t, run("surplus"), "unknown command \"surplus\" for \"kubectl remit "+strings.Join(path, " ")+"\"")
			return
		}
		var args []string
		if operand != "" {
			require.Contains(t, run(), "the argument "+operand+" is missing\n\nUsage:\n  kubectl remit "+strings.Join(path, " ")+" "+operand)
			args = []string{"a"}
		}
		require.Contains(t, run(append(args, "surplus")...), "unexpected argument \"surplus\"\n\nUsage:\n  kubectl remit "+strings.Join(path, " "))
	}
	visit(root())
}
