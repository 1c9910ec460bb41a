package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command can be busy with something that does not end with its context.
func TestASecondSignalEndsTheCommand(t *testing.T) {
	const child = "REMIT_TEST_SIGNALS"
	if os.Getenv(child) != "" {
		ctx, released := interruptible()
		fmt.Println("ready")
		<-ctx.Done()
		<-released
		fmt.Println("released")
		select {}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=1")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	for _, want := range []string{"ready\n", "released\n"} {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
	}
	require.Error(t, cmd.Wait())
}
