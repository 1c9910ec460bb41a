// Package recorded provides tables of reconcilers with an API server in memory that records what it is asked for, by
// whom, and in which order.
//
// It stores objects and answers requests; rows can refuse one. It does not authorize, admit, default or collect garbage: what an
// API server does with a request is tested with a real one (test/env/controlplane). A table therefore asserts the
// requests, the status and the events of a reconciler, and nothing about the answers.
package recorded
