// Package e2e tests the user stories. Each test installs an operator, or tries to, in its own namespace and only
// through the API, on an embedded control plane that the package's tests share. After the last test, all requests from
// the controller identities are checked against the closed list of docs/adr/0001.
package e2e
