package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestUntilSaysWhatItWaitedFor(t *testing.T) {
	d := &demo{Options: Options{Timeout: 100 * time.Millisecond}}
	err := d.until(t.Context(), func(context.Context) error { return errors.New("not ready") })
	require.EqualError(t, err, "timed out after 100ms: not ready")
}

// If the catalog program exits immediately, for example because the machine's limit of inotify instances is reached,
// Remit never becomes ready.
func TestShowsTheLogOfAFailingPod(t *testing.T) {
	bin, err := filepath.Abs("../../../bin")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(bin, programControlPlane), filepath.Join(dir, programControlPlane)))
	failed := filepath.Join(dir, "failed")
	for name, script := range map[string]string{
		// Before the second run of the program, the status of its Pod has been reported.
		programCatalog: "echo 'watch catalog directories: too many open files'; mkdir " + failed + ".once || touch " + failed + "; exit 1", programOLM: "exec sleep 600", programSample: "exec sleep 600",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	out := &bytes.Buffer{}
	d := &demo{Options: Options{Timeout: 10 * time.Minute, Out: out}, progress: newProgress(out), programs: programs(dir)}
	defer d.stop()
	catalog := t.TempDir()
	require.Error(t, d.try(t.Context(), func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			defer cancel()
			_ = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, false, func(context.Context) (bool, error) {
				_, err := os.Stat(failed)
				return err == nil, nil
			})
		}()
		return d.start(ctx, catalog)
	}))
	require.Contains(t, out.String(), "Pod remit/remit-catalog-")
	require.Contains(t, out.String(), "watch catalog directories: too many open files")
}

// A short timeout is for bundles that cannot be installed. A machine may be busy when Remit starts.
func TestAShortTimeoutDoesNotLimitTheStart(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{time.Second: defaultTimeout, time.Hour: time.Hour} {
		d := &demo{Options: Options{Timeout: given}}
		require.Equal(t, want, d.starting().Timeout)
		require.Equal(t, given, d.Timeout)
	}
}
