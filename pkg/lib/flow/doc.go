// Package flow runs a reconcile as a list of phases over a shared scope. A phase ends in one of three ways: it
// continues, waits (no error; a watch wakes it), or fails.
package flow
