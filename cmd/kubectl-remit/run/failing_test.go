package run

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// If the catalog program exits immediately, for example because the machine's limit of inotify instances is reached,
// Remit never becomes ready.
func TestShowsTheLogOfAFailingPod(t *testing.T) {
	bin, err := filepath.Abs("../../../bin")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(bin, programControlPlane), filepath.Join(dir, programControlPlane)))
	for name, script := range map[string]string{
		programCatalog: "echo 'watch catalog directories: too many open files'; exit 1", programOLM: "exec sleep 600", programSample: "exec sleep 600",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	out := &bytes.Buffer{}
	d := &demo{Options: Options{Timeout: 40 * time.Second, Out: out}, progress: newProgress(out), programs: programs(dir)}
	defer d.stop()
	catalog := t.TempDir()
	require.Error(t, d.try(t.Context(), func(ctx context.Context) error { return d.start(ctx, catalog) }))
	require.Contains(t, out.String(), "Pod remit/remit-catalog-")
	require.Contains(t, out.String(), "watch catalog directories: too many open files")
}
