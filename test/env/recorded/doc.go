// Package recorded contains an in-memory API server for table-driven tests of reconcilers. It records each request with
// its identity, in order.
//
// It stores objects and answers requests; a test case can make it refuse a request. It does not authorize, admit,
// default or garbage-collect: how an API server handles a request is tested with a real one (test/env/controlplane).
// Tests therefore assert a reconciler's requests, status and events, but not the responses.
package recorded
