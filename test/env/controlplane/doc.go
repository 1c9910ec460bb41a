// Package controlplane starts the embedded control plane (bin/controlplane, see its own module) and connects to it.
//
//	cp := controlplane.Shared(t)          // most tests: one for all test processes of this machine and user
//	cp := controlplane.Start(t)           // one of your own: 3 s and 320 MB, for tests that break things for others
//	cp, err := controlplane.Launch(ctx, controlplane.Options{Dir: dir})   // outside of tests; cp.Stop() ends it
//
//	cp.MapImage("example.com/op:v1", exe) // containers of this image run as a process from now on
//
// The package only starts a process and reads a kubeconfig, so it needs nothing of Kubernetes but client-go. It builds nothing:
// without the binary tests fail with the advice to run make controlplane.
//
// # Sharing
//
// On a shared control plane every test works in a namespace of its own and gives cluster-scoped objects unique names; images are
// cluster-scoped in this sense, too. Nothing is ever cleaned up for a test, and deleting namespaces takes five seconds that
// nobody has to wait for: the whole control plane is dropped when it is no longer used.
//
// Two locked files, no counters: `start` serialises starting and joining, and every user holds a shared lock on `users` until its
// process ends, however it ends. The control plane leaves when it gets the exclusive lock on `users`, and keeps it until it is gone;
// somebody who joins at that moment waits for its end and starts a new one. `state/lock` is held by whoever runs in the
// directory, which tells whether there is anybody to join.
package controlplane
