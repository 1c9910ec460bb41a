// Package controlplane starts the embedded control plane (bin/controlplane, a separate module) and connects to it.
//
//	cp := controlplane.Shared(t)          // most tests: one for all test processes of this machine and user
//	cp := controlplane.Start(t)           // a separate one: 3 s and 500 MB, for tests that affect others
//	cp, err := controlplane.Launch(ctx, controlplane.Options{Dir: dir})   // outside tests; cp.Stop() ends it
//
//	cp.MapImage("example.com/op:v1", exe) // containers of this image run as a process from now on
//
// The package only starts a process and reads a kubeconfig, so it needs only client-go. It builds nothing: without
// the binary, tests fail with the advice to run make controlplane.
//
// # Sharing
//
// On a shared control plane every test uses its own namespace and unique names for cluster-scoped objects; this
// includes images. Tests do not clean up, and nothing waits the five seconds that deleting a namespace takes: the
// whole control plane is removed when it is no longer used.
//
// Sharing uses two lock files and no counters: `start` serializes starting and joining, and every user holds a shared
// lock on `users` until its process ends, in whatever way. The control plane exits when it gets the exclusive lock on
// `users`, and keeps the lock until it has exited; a process that joins at that moment waits for this and starts a
// new one. The control plane that uses the directory locks `state/lock`, which shows whether there is one to join.
package controlplane
