package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExitCodesFollowContainerRuntimes(t *testing.T) {
	l, err := New()
	require.NoError(t, err)
	for script, want := range map[string]Exit{
		"exit 0":        {},
		"exit 3":        {Code: 3},
		"kill -TERM $$": {Code: 143, Signal: 15},
	} {
		p := start(t, l, script)
		<-p.Done()
		require.Equal(t, want, p.Exit(), script)
	}
	_, err = l.Start(Spec{Path: "/does/not/exist"})
	require.Error(t, err)
}

func TestStopKillsTheWholeGroupAfterTheGracePeriod(t *testing.T) {
	l, err := New()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "child")
	p := start(t, l, "trap '' TERM; sleep 600 & echo $! >"+file+".tmp; mv "+file+".tmp "+file+"; while :; do sleep 1; done")
	var child int
	require.EventuallyWithT(t, func(c *collect) {
		content, err := os.ReadFile(file)
		require.NoError(c, err)
		child, err = strconv.Atoi(strings.TrimSpace(string(content)))
		require.NoError(c, err)
	}, time.Minute, 10*time.Millisecond)
	p.Stop(10 * time.Millisecond)
	require.Equal(t, Exit{Code: 137, Signal: 9}, p.Exit())
	require.EventuallyWithT(t, func(c *collect) { require.False(c, alive(child)) }, time.Minute, 10*time.Millisecond)
}

// alive reports whether a process is running. A zombie does not count as running, because nothing here reaps a
// grandchild.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && syscall.Kill(pid, 0) == nil && !strings.Contains(string(stat), ") Z ")
}

func start(t *testing.T, l *Launcher, script string) *Process {
	t.Helper()
	p, err := l.Start(Spec{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { p.Stop(0) })
	return p
}
