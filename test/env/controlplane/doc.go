// Package controlplane starts the embedded control plane (bin/controlplane, a separate module) and connects to it.
//
//	cp := controlplane.Shared(t) // most tests: one for all test processes of this user on this machine
//	cp := controlplane.Start(t)           // a separate one: 3 s and 500 MB, for tests that affect others
//	cp, err := controlplane.Launch(ctx, controlplane.Options{Dir: dir})   // outside tests; cp.Stop() stops it
//
//	cp.MapImage("example.com/op:v1", exe) // from now on, containers of this image run as processes
//
// The package only starts a process and reads a kubeconfig, so it needs only client-go. It does not build the binary:
// if it does not exist, tests fail with a message to run make controlplane.
//
// # Sharing
//
// On a shared control plane, every test uses its own namespace and unique names for cluster-scoped objects and images.
// Tests do not clean up, so they do not wait the five seconds that deleting a namespace takes. The whole control plane
// is removed when it is no longer used.
//
// Sharing uses two lock files and no counters: `start` serializes starting and joining, and every user process holds a
// shared lock on `users` until it exits, even if it crashes. The control plane exits when it gets the exclusive lock on
// `users`, and keeps the lock until it has exited; a process that joins in the meantime waits for the lock and starts a
// new control plane. A running control plane locks `state/lock`, which shows whether there is one to join.
package controlplane
