// Package e2e contains the user stories. Each test installs an operator, or tries to, only through the API, in its own
// namespace on an embedded control plane that the package's tests share. After the last test, all requests of the
// controller identities are checked against the closed list of the security model.
package e2e
