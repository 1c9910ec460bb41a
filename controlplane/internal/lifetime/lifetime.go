// Package lifetime detects when a control plane has no users left, and keeps two control planes out of one directory.
//
// Sharing needs no reference counts: every user holds a shared lock (flock) on one file until its process ends, in
// whatever way, so the kernel always knows whether there are users. The control plane checks by trying to take the
// exclusive lock.
//
//	users: hold the shared lock ... process ends
//	control plane: exclusive lock denied ... granted for the whole linger time: keeps it and exits
//
// It keeps the exclusive lock until it has exited. A process that wants to join at that moment waits, finds no
// control plane and starts a new one, instead of joining one that is about to exit.
package lifetime

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"
)

const pollInterval = 200 * time.Millisecond

// Exclusive takes the lock of a directory or fails at once. The lock lasts until the process ends.
func Exclusive(file string) error {
	fd, err := open(file)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: used by another control plane: %w", file, err)
	}
	return nil
}

// Unused closes the returned channel when the file has not been locked by others for the linger time.
func Unused(ctx context.Context, file string, linger time.Duration) (<-chan struct{}, error) {
	fd, err := open(file)
	if err != nil {
		return nil, err
	}
	unused := make(chan struct{})
	go func() {
		var since time.Time
		for ticker := time.Tick(pollInterval); ; {
			select {
			case <-ctx.Done():
				_ = syscall.Close(fd)
				return
			case <-ticker:
			}
			switch {
			case syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) != nil:
				since = time.Time{}
				continue
			case since.IsZero():
				since = time.Now()
			case time.Since(since) >= linger:
				close(unused)
				return // keeps the lock: see the package comment
			}
			_ = syscall.Flock(fd, syscall.LOCK_UN)
		}
	}()
	return unused, nil
}

// Closed closes the returned channel when the reader ends; for a pipe this means that its owner has exited.
func Closed(r io.Reader) <-chan struct{} {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, r)
	}()
	return closed
}

// open returns a bare descriptor rather than an os.File: a collected os.File is closed, and closing releases its lock.
func open(file string) (int, error) {
	fd, err := syscall.Open(file, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("open lock file %s: %w", file, err)
	}
	return fd, nil
}
