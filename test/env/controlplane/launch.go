package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// startTimeout is long because the machine may be busy compiling. On an idle machine, the start takes three seconds.
	startTimeout = 3 * time.Minute
	stopTimeout  = 2 * time.Minute
	poll         = 20 * time.Millisecond
	logTail      = 4096
)

// Options are the options of a control plane. The zero value runs the repository's own binary in a temporary directory.
type Options struct {
	// Binary is the executable. The default is the environment variable CONTROLPLANE, or bin/controlplane in the
	// repository of the working directory.
	Binary string
	// Dir is the state directory. It is kept after Stop, so that a later start finds its data. The default is a temporary
	// directory, which Stop removes.
	Dir string
	// Images maps images to executables. MapImage adds more later.
	Images map[string]string
	// Authorizer is the URL of a webhook that authorizes requests that RBAC does not allow. It receives
	// SubjectAccessReviews.
	Authorizer string
	// Linger is how long a shared control plane waits for a new user after the last one has exited. The default is 15 s,
	// which covers the pauses between the test binaries of one `go test ./...`. The process that starts the control plane
	// sets it.
	Linger time.Duration
}

// Launch starts a private control plane and waits until it is ready or the context is done. The control plane exits at
// the latest when this process exits.
func Launch(ctx context.Context, o Options) (*Instance, error) {
	binary, err := findBinary(o.Binary)
	if err != nil {
		return nil, err
	}
	dir, temporary := o.Dir, false
	if dir == "" {
		temporary = true
		if dir, err = os.MkdirTemp("", "remit-cp-"); err != nil {
			return nil, err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	args := []string{"--tether"}
	for image, executable := range o.Images {
		args = append(args, "--image="+image+"="+executable)
	}
	if o.Authorizer != "" {
		file, err := writeAuthorizer(dir, o.Authorizer)
		if err != nil {
			return nil, err
		}
		args = append(args, "--authorizer="+file)
	}
	p, err := startProcess(binary, dir, args)
	if err != nil {
		return nil, err
	}
	if temporary {
		p.cleanUp = func() error { return os.RemoveAll(dir) }
	}
	instance, err := p.await(ctx)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	instance.process = p
	return instance, nil
}

// writeAuthorizer writes the kubeconfig that the API server uses to call an authorizer.
func writeAuthorizer(dir, url string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["authorizer"] = &clientcmdapi.Cluster{Server: url}
	config.Contexts["authorizer"] = &clientcmdapi.Context{Cluster: "authorizer"}
	config.CurrentContext = "authorizer"
	file := filepath.Join(dir, "authorizer.kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}

// process is a control plane that the current process has started.
type process struct {
	cmd     *exec.Cmd
	dir     string
	tether  io.Closer // the stdin of the process
	done    chan struct{}
	err     error // valid once done is closed
	cleanUp func() error
}

// startProcess runs the binary in its own session, so that Ctrl-C in the terminal interrupts only this process. A
// shared control plane must continue to run.
func startProcess(binary, dir string, args []string) (*process, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// If the file exists, an earlier run wrote it.
	if err := os.Remove(filepath.Join(dir, readyFile)); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	stderr, err := os.OpenFile(filepath.Join(dir, "stderr.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }()
	args = append([]string{"--dir=" + dir, "--images-file=" + filepath.Join(dir, imagesFile)}, args...)
	cmd := exec.Command(binary, args...)
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	p := &process{cmd: cmd, dir: dir, tether: stdin, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// await waits until the control plane has written its announcement.
func (p *process) await(ctx context.Context) (*Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for tick := time.Tick(poll); ; {
		if i, err := read(p.dir); err == nil {
			return i, nil
		}
		select {
		case <-tick:
		case <-p.done:
			return nil, fmt.Errorf("control plane exited during startup: %w\n%s", p.err, tail(p.dir))
		case <-ctx.Done():
			return nil, fmt.Errorf("control plane is not ready: %w\n%s", ctx.Err(), tail(p.dir))
		}
	}
}

// stop sends SIGTERM, waits, and kills the process if it does not exit. In either case, the Pods of the control plane
// exit as well.
func (p *process) stop() error {
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		err = errors.Join(errors.New("control plane had to be killed"), p.cmd.Process.Kill())
		<-p.done
	}
	_ = p.tether.Close()
	if err == nil {
		err = p.err
	}
	if p.cleanUp != nil {
		err = errors.Join(err, p.cleanUp())
	}
	return err
}

// tail returns the end of the logs, to be included in the error when a start fails.
func tail(dir string) string {
	var out string
	for _, name := range []string{"stderr.log", "controlplane.log"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && len(content) > 0 {
			out += name + ": ..." + string(content[max(0, len(content)-logTail):]) + "\n"
		}
	}
	return out
}
