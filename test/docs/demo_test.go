package docs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// demoUp is the last line that `kubectl remit run` prints before it waits for Ctrl-C.
	demoUp = "The cluster stays up until you press Ctrl-C."
	// upWithin is the timeout for starting the cluster, and stoppedWithin for stopping it.
	upWithin      = 6 * time.Minute
	stoppedWithin = 2 * time.Minute
)

// In the output of `kubectl remit run`, setUp matches the line that prepares a terminal for the pages, and tried
// matches the suggested kubectl commands.
var (
	setUp = regexp.MustCompile(`(?m)^  (cd .* && export .*)$`)
	tried = regexp.MustCompile(`(?m)^  (kubectl .*)$`)
)

// demo is a running `kubectl remit run`.
type demo struct {
	cmd *exec.Cmd
	// dir is for temporary files.
	dir string
	// printed is the output up to and including demoUp.
	printed string
	// ended receives the result of the command once, when it exits.
	ended chan error
}

// startDemo runs `kubectl remit run` and returns once the cluster is up.
func startDemo(dir string) (*demo, error) {
	// Because of Pdeathsig, the kernel interrupts the command when the thread that started it exits. TestMain's goroutine
	// keeps this thread until the process exits, even if the process crashes.
	runtime.LockOSThread()
	d := &demo{dir: dir, cmd: exec.Command("bin/kubectl-remit", "run", "--timeout=5m"), ended: make(chan error, 1)}
	d.cmd.Dir = root
	d.cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	d.cmd.Stderr = os.Stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT, Setpgid: true}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
	}
	up := make(chan string, 1)
	go func() {
		d.read(out, up)
		d.ended <- d.cmd.Wait()
	}()
	select {
	case d.printed = <-up:
	case <-time.After(upWithin):
		return nil, errors.Join(fmt.Errorf("kubectl remit run is not up after %s", upWithin), d.stop())
	}
	if !strings.HasSuffix(d.printed, demoUp+"\n") {
		return nil, fmt.Errorf("kubectl remit run: %w\n%s", <-d.ended, d.printed)
	}
	return d, nil
}

// read sends the output up to and including demoUp, or the whole output if demoUp is missing, on the channel up, and
// discards the rest.
func (d *demo) read(out io.Reader, up chan<- string) {
	var printed strings.Builder
	sent := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if sent {
			continue
		}
		printed.WriteString(lines.Text() + "\n")
		if lines.Text() == demoUp {
			up <- printed.String()
			sent = true
		}
	}
	if !sent {
		up <- printed.String()
	}
}

// stop sends Ctrl-C.
func (d *demo) stop() error {
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	select {
	case err := <-d.ended:
		return err
	case <-time.After(stoppedWithin):
		return errors.Join(fmt.Errorf("kubectl remit run did not stop in %s", stoppedWithin), d.cmd.Process.Kill())
	}
}

// waitTimeout matches the timeouts of kubectl wait on the pages.
var waitTimeout = regexp.MustCompile(`(kubectl wait [^|;&]*--timeout[= ])(?:60|120)s`)

// patient returns the line with longer timeouts of kubectl wait, because the machine may be busy with other tests.
func patient(line string) string { return waitTimeout.ReplaceAllString(line, "${1}170s") }

// shell runs a line in a shell with the environment that the pages require, and returns the combined output. kubectl wait waits
// longer than on the page.
func (d *demo) shell(ctx context.Context, line, stdin string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	ready := setUp.FindStringSubmatch(d.printed)
	if ready == nil {
		return "", fmt.Errorf("kubectl remit run did not print the command that prepares a terminal:\n%s", d.printed)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", ready[1]+"\n"+patient(line))
	cmd.Stdin = strings.NewReader(stdin)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "KUBECONFIG" && name != "OPERATOR_NAMESPACE" && name != "GLOBAL_CATALOG_NAMESPACE" {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "KUBECACHEDIR="+filepath.Join(d.dir, "kube-cache"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestTheCommandsThatRunPrintsWork(t *testing.T) {
	t.Parallel()
	lines := tried.FindAllStringSubmatch(running.printed, -1)
	require.Len(t, lines, 3, running.printed)
	for _, line := range lines {
		got, err := running.shell(t.Context(), line[1], "")
		require.NoErrorf(t, err, "$ %s\n%s", line[1], got)
		require.NotEmpty(t, got)
	}
}
