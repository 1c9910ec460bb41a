// Package audit reads the API server's audit log and checks requests from the controller identities against the closed
// list of docs/adr/0001.
package audit
