package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/remit-olm/remit/controlplane/internal/lifetime"
)

const (
	readyFile = "ready.json"
	// gcPercent lets the heap grow to five times the memory in use before garbage is collected. Compared with a value of 200, this
	// uses 100 to 150 MB more memory and halves the CPU time of garbage collection.
	gcPercent = 400
	// memoryLimit is the memory, in bytes, above which garbage is collected more often, because tests run several control
	// planes at the same time.
	memoryLimit = 4 << 30
)

// readyLine is the only line written to stdout, and the content of DIR/ready.json. It contains what users of the
// control plane need to know.
type readyLine struct {
	Ready      bool   `json:"ready"`
	Kubeconfig string `json:"kubeconfig"`
	Server     string `json:"server"`
	// PodNet is the Pod network in CIDR notation. Proxy is the URL of the proxy through which Pods and Services can be
	// reached.
	PodNet   string `json:"podNet"`
	Proxy    string `json:"proxy"`
	Dir      string `json:"dir"`
	AuditLog string `json:"auditLog"`
	PID      int    `json:"pid"`
}

func main() {
	o, err := parseOptions(os.Args[1:])
	if err == nil {
		err = run(o)
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	if err := lifetime.Exclusive(filepath.Join(o.dir, "lock")); err != nil {
		return err
	}
	console, err := redirectStderr(filepath.Join(o.dir, "controlplane.log"))
	if err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(o.dir, readyFile)) // left by an earlier run
	err = serve(o)
	klog.Flush()
	if o.ephemeral {
		removeData(o)
	}
	// Print errors for the user; the log has the details.
	os.Stderr = console
	return err
}

// serve runs the control plane until a signal arrives, a component fails, or no users are left.
func serve(o options) error {
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stopSignals()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := watchUsers(ctx, o, cancel); err != nil {
		return err
	}
	c := &cluster{options: o}
	if err := c.start(ctx); err != nil {
		c.abandon()
		if ctx.Err() != nil {
			return nil // stopped while starting
		}
		return err
	}
	defer c.stop()
	if err := announce(c.readyLine()); err != nil {
		return fmt.Errorf("announce readiness: %w", err)
	}
	select {
	case <-ctx.Done():
		klog.InfoS("Stopping", "cause", context.Cause(ctx))
		return nil
	case r := <-c.failed():
		return r
	}
}

// announce writes DIR/ready.json, for processes that join later, and the line on stdout. Nothing else is written to
// stdout, because its reader may have exited.
func announce(line readyLine) error {
	content, err := json.Marshal(line)
	if err != nil {
		return err
	}
	content = append(content, '\n')
	file := filepath.Join(line.Dir, readyFile)
	if err := os.WriteFile(file+".tmp", content, 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		return err
	}
	_, err = os.Stdout.Write(content)
	return err
}

// watchUsers calls cancel when no users of this control plane are left.
func watchUsers(ctx context.Context, o options, cancel context.CancelCauseFunc) error {
	end := func(gone <-chan struct{}, cause string) {
		select {
		case <-ctx.Done():
		case <-gone:
			cancel(fmt.Errorf("%s", cause))
		}
	}
	if o.users != "" {
		unused, err := lifetime.Unused(ctx, o.users, o.linger)
		if err != nil {
			return err
		}
		go end(unused, "no users left")
	}
	if o.tether {
		go end(lifetime.Closed(os.Stdin), "stdin closed")
	}
	return nil
}

// redirectStderr redirects everything that components write to stderr, including crash traces of the runtime, to a
// file, and returns the original stderr.
func redirectStderr(file string) (*os.File, error) {
	log, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Dup(syscall.Stderr)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	console := os.NewFile(uintptr(fd), "stderr")
	if err := syscall.Dup3(int(log.Fd()), syscall.Stderr, 0); err != nil {
		return nil, err
	}
	return console, log.Close()
}

// removeData removes all data of an ephemeral control plane except the logs.
func removeData(o options) {
	gone := []string{filepath.Join(o.dir, "etcd"), filepath.Join(o.dir, "pki")}
	for _, d := range []string{"volumes", "roots", "home", "tmp"} {
		found, _ := filepath.Glob(filepath.Join(o.dir, "pods", "*", d))
		gone = append(gone, found...)
	}
	for _, d := range gone {
		_ = os.RemoveAll(d) // leftover files are harmless
	}
}
