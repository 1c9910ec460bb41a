// Package recorded contains an in-memory API server for tables of reconcilers. It records each request with its
// identity, in order.
//
// It stores objects and answers requests; a row can make it refuse one. It does not authorize, admit, default or collect
// garbage: what an API server does with a request is tested with a real one (test/env/controlplane). A table therefore
// asserts the requests, the status and the events of a reconciler, and nothing about the answers.
package recorded
