// Package kit contains helpers that the controllers share: they find the requests that an event affects, enqueue
// requests without an event, run goroutines while the program is the leader, and track the RBAC that a reconcile looks
// up. The package defines no API kinds. Only package controller and the controllers import it.
package kit
