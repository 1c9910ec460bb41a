// Package flow runs a reconcile as a list of phases over one shared scope, and names the three ways
// in which a phase can end: go on, wait (no error; a watch wakes it), or fail. Reconcilers call it.
package flow
