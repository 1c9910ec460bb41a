// Package kit contains what the controllers share: the requests that an event concerns, requests from outside of
// reconciles, and the RBAC that a reconcile looks up. It knows no kind of its own. Only controllers and their list in
// package controller import it.
package kit
