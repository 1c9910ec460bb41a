package controlplane_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/remit-olm/remit/test/env/controlplane"
)

func TestAPrivateControlPlaneKeepsItsDataAndStopsItsProcesses(t *testing.T) {
	t.Parallel()
	o := controlplane.Options{Dir: t.TempDir()}
	first, err := controlplane.Launch(t.Context(), o)
	require.NoError(t, err)
	w := newWorld(t, first)
	w.configMap("kept", map[string]string{"color": "green"})
	w.create(agentPod("a", "serve", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }))
	r := w.report("a")
	require.NoError(t, first.Stop(), "the control plane must exit with code 0 after SIGTERM")
	require.False(t, alive(r.PID) || alive(r.Child) || alive(first.PID))

	second, err := controlplane.Launch(t.Context(), o)
	require.NoError(t, err)
	again := newWorld(t, second)
	again.namespace = w.namespace
	m, err := again.client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "kept", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "green", m.Data["color"])
	after := again.report("a")
	require.NotEqual(t, r.PID, after.PID, "the Pod must run again")

	require.NoError(t, syscall.Kill(second.PID, syscall.SIGKILL))
	<-second.Done()
	again.waitExited(after.PID, after.Child)
	require.Error(t, second.Stop(), "the control plane must not have to be killed")
}

func TestACanceledLaunchEndsItsProcess(t *testing.T) {
	t.Parallel()
	o := controlplane.Options{Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		// The API server is still starting, which is the worst time to be interrupted.
		_ = wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
			_, err := os.Stat(filepath.Join(o.Dir, "audit.log"))
			return err == nil, nil
		})
	}()
	_, err := controlplane.Launch(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "exit status")
	again, err := controlplane.Launch(t.Context(), o)
	require.NoError(t, err, "the directory must not be locked")
	require.NoError(t, again.Stop())
}

func TestTwoProcessesShareOneControlPlaneThatExitsAfterThem(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	first, closeFirst := join(t, tmp)
	second, closeSecond := join(t, tmp)
	require.Equal(t, first, second)
	closeFirst()
	third, closeThird := join(t, tmp)
	require.Equal(t, first, third)
	closeSecond()
	closeThird()
	w := &world{t: t}
	w.waitExited(first)
	fourth, closeFourth := join(t, tmp)
	require.NotEqual(t, first, fourth)
	closeFourth()
	w.waitExited(fourth)
}

// join starts a process that joins the shared control plane under tmp. It returns the control plane's PID and a
// function that stops the started process.
func join(t *testing.T, tmp string) (int, func()) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), agentMode+"=join", "TMPDIR="+tmp)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return pid, func() {
		require.NoError(t, stdin.Close())
		_, _ = io.Copy(io.Discard, stdout)
		require.NoError(t, cmd.Wait())
	}
}
