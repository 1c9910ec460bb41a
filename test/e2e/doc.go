// Package e2e tells the user stories: each test installs, or tries to install, through the API only,
// in a namespace of its own on an embedded control plane that the package's tests share. After the last
// one, all that was sent as Remit's own identities is held to the closed list of the security model.
package e2e
