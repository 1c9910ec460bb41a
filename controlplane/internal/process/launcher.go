// Package process starts local processes that never outlive this one.
//
// Three mechanisms end a process, because each of them misses some cases:
//
//   - a clean stop sends SIGTERM to the process and kills its whole group after the grace period, as a container
//     runtime does;
//   - Pdeathsig kills the started process when this process dies for any reason, including kill -9. The kernel ties it to the
//     thread that forked, and Go may end an idle thread at any time, so all forking happens on one goroutine that stays
//     locked to a thread;
//   - Pdeathsig does not reach grandchildren. A small shell (the warden) in its own session learns about every process
//     group through a pipe that only this process holds open: when the pipe is closed, it kills the remaining groups.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

// Spec describes a process to start.
type Spec struct {
	Path string
	Args []string // without the name of the program
	Env  []string // the complete environment
	Dir  string
	Log  *os.File // stdout and stderr
}

// Exit describes how a process ended.
type Exit struct {
	// Code is the exit code or, as in a container runtime, 128 + the signal.
	Code   int32
	Signal int32
}

// Launcher starts processes. Use New to create one.
type Launcher struct {
	requests chan request
	warden   *warden
}

// Process is a started process.
type Process struct {
	cmd      *exec.Cmd
	launcher *Launcher
	done     chan struct{}
	exit     Exit
}

type request struct {
	cmd   *exec.Cmd
	reply chan error
}

// New starts the forking thread and the warden. Both run as long as the program does.
func New() (*Launcher, error) {
	w, err := newWarden()
	if err != nil {
		return nil, fmt.Errorf("start warden: %w", err)
	}
	l := &Launcher{requests: make(chan request), warden: w}
	go l.fork()
	return l, nil
}

// Start starts a process in its own process group.
func (l *Launcher) Start(s Spec) (*Process, error) {
	cmd := &exec.Cmd{
		Path: s.Path, Args: append([]string{s.Path}, s.Args...), Env: s.Env, Dir: s.Dir, Stdout: s.Log, Stderr: s.Log,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	r := request{cmd: cmd, reply: make(chan error, 1)}
	l.requests <- r
	if err := <-r.reply; err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, launcher: l, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

func (l *Launcher) fork() {
	runtime.LockOSThread()
	for r := range l.requests {
		err := r.cmd.Start()
		if err == nil {
			l.warden.guard(r.cmd.Process.Pid)
		}
		r.reply <- err
	}
}

// Pid returns the ID of the process, which is also the ID of its process group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended and its Exit is known.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended. It is valid once Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Stop ends the process and its group: SIGTERM to the process, the grace period, then SIGKILL to the group. It
// returns when the process has ended.
func (p *Process) Stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // the process may already have ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.killGroup()
		<-p.done
	}
}

func (p *Process) wait() {
	defer close(p.done)
	err := p.cmd.Wait()
	// All processes of a container end when its first process does.
	p.killGroup()
	p.launcher.warden.release(p.Pid())
	var exited *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exited):
		p.exit = exitOf(exited.Sys().(syscall.WaitStatus))
	default:
		p.exit = Exit{Code: 128}
	}
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: 128 + int32(status.Signal()), Signal: int32(status.Signal())} //nolint:gosec // at most 127
	}
	return Exit{Code: int32(status.ExitStatus())} //nolint:gosec // at most 255
}

// killGroup kills the process group. It ignores a group that has already ended.
func (p *Process) killGroup() {
	if err := syscall.Kill(-p.Pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		klog.V(2).InfoS("Failed to kill process group", "group", p.Pid(), "err", err)
	}
}
