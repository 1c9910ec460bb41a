package controlplane

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const defaultLinger = 15 * time.Second

// Join returns the control plane that all processes of this user share for this repository and binary. It starts the
// control plane if it is not running. The options Dir and Images are ignored. Instance.Stop ends this process's use of
// it.
func Join(ctx context.Context, o Options) (*Instance, error) {
	binary, err := findBinary(o.Binary)
	if err != nil {
		return nil, err
	}
	base, err := sharedDir(binary)
	if err != nil {
		return nil, err
	}
	starting, err := lock(ctx, filepath.Join(base, "start"), syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer starting.close()
	// Lock before checking whether a control plane is running, so that a running one does not exit in the meantime.
	users, err := lock(ctx, filepath.Join(base, "users"), syscall.LOCK_SH)
	if err != nil {
		return nil, err
	}
	i, err := joinOrStart(ctx, binary, base, o.Linger)
	if err != nil {
		users.close()
		return nil, err
	}
	i.release = users.close
	return i, nil
}

func joinOrStart(ctx context.Context, binary, base string, linger time.Duration) (*Instance, error) {
	dir := filepath.Join(base, "state")
	if running(dir) {
		return await(ctx, dir)
	}
	// No control plane is running. Remove the files of an earlier run, because a shared control plane always starts empty.
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if linger <= 0 {
		linger = defaultLinger
	}
	p, err := startProcess(binary, dir, []string{"--users=" + filepath.Join(base, "users"), "--linger=" + linger.String(), "--ephemeral"})
	if err != nil {
		return nil, err
	}
	i, err := p.await(ctx)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	i.process = p
	return i, nil
}

// await waits until the control plane is ready. The process that started it may already have exited.
func await(ctx context.Context, dir string) (*Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for tick := time.Tick(poll); ; {
		if i, err := read(dir); err == nil {
			return i, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("control plane in %s is not ready: %w\n%s", dir, ctx.Err(), tail(dir))
		case <-tick:
		}
		if !running(dir) {
			return nil, fmt.Errorf("control plane in %s exited during startup\n%s", dir, tail(dir))
		}
	}
}

// running reports whether a control plane is running, that is, whether the state directory is locked.
func running(dir string) bool {
	l, err := tryLock(filepath.Join(dir, "lock"), syscall.LOCK_EX)
	if err == nil {
		l.close()
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}

// sharedDir returns the directory for this user, checkout and build: a new binary gets a new control plane, and the old
// one exits automatically. Size and modification time identify the build without reading 120 MB.
func sharedDir(binary string) (string, error) {
	info, err := os.Stat(binary)
	if err != nil {
		return "", err
	}
	build := fmt.Sprintf("%s %d %d", binary, info.Size(), info.ModTime().UnixNano())
	name := fmt.Sprintf("remit-cp-%d-%x", os.Getuid(), sha256.Sum256([]byte(build)))
	dir := filepath.Join(os.TempDir(), name[:min(len(name), 32)])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// The name is predictable, so make sure that no other user created the directory.
	info, err = os.Lstat(dir)
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s must be owned by and accessible only to this user", dir)
	}
	return dir, nil
}

// heldLock is a raw descriptor: an os.File would be closed, and the lock released, when it is garbage-collected.
type heldLock int

func (l heldLock) close() { _ = syscall.Close(int(l)) }

func tryLock(file string, how int) (heldLock, error) {
	fd, err := syscall.Open(file, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("open lock file %s: %w", file, err)
	}
	if err := syscall.Flock(fd, how|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(fd)
		return 0, fmt.Errorf("lock %s: %w", file, err)
	}
	return heldLock(fd), nil
}

// lock waits for the lock until the context is done. It polls, because a blocking flock cannot be interrupted.
func lock(ctx context.Context, file string, how int) (heldLock, error) {
	for tick := time.Tick(poll); ; {
		l, err := tryLock(file, how)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-tick:
		}
	}
}
