// Package lifetime decides when a control plane has no more users, and keeps two of them out of one directory.
//
// Sharing needs no reference counts: every user holds a shared lock (flock) on one file until its process ends, however it
// ends, so the kernel always knows whether anybody is left. The control plane asks by trying for the exclusive lock.
//
//	users: shared lock held ... process ends
//	control plane: exclusive lock refused ... granted for the whole linger time: keeps it and exits
//
// It keeps the exclusive lock until it is gone, so that a process which wants to join at that moment waits, finds nobody at home
// and starts a new one, rather than joining a control plane that is about to leave.
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
		return fmt.Errorf("lock %s: held by another control plane: %w", file, err)
	}
	return nil
}

// Unused closes the returned channel once nobody has held a lock on the file for the time given.
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
				return // with the lock: see the package comment
			}
			_ = syscall.Flock(fd, syscall.LOCK_UN)
		}
	}()
	return unused, nil
}

// Closed closes the returned channel when the reader ends, which for a pipe means that its owner has gone.
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
