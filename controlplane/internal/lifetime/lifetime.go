// Package lifetime detects when a control plane has no users left, and prevents two control planes from using the same
// directory.
//
// Sharing needs no reference counts: every user holds a shared lock (flock) on one file until its process ends for any
// reason, so the kernel keeps track of whether there are users. The control plane checks by trying to take the
// exclusive lock.
//
//	users: hold the shared lock ... process ends
//	control plane: exclusive lock denied ... granted for the whole linger time: keeps it and exits
//
// The control plane keeps the exclusive lock until it has exited. A process that wants to join at that moment waits,
// finds no control plane and starts a new one, instead of joining one that is about to exit.
package lifetime

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"
)

const pollInterval = 200 * time.Millisecond

// Exclusive acquires the exclusive lock on a file, or fails immediately if another control plane holds it. The lock
// lasts until the process ends.
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

// Unused returns a channel that is closed once no other process has held a lock on the file for the linger time. From then on,
// this process holds the exclusive lock.
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

// Closed returns a channel that is closed when the reader reaches the end of its data. For a pipe, this means that the process
// at the other end has exited.
func Closed(r io.Reader) <-chan struct{} {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, r)
	}()
	return closed
}

// open opens a lock file. It returns a bare descriptor instead of an os.File, because the lock would be released when
// the os.File is garbage-collected.
func open(file string) (int, error) {
	fd, err := syscall.Open(file, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("open lock file %s: %w", file, err)
	}
	return fd, nil
}
