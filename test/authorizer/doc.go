// Package authorizer tests that installs are bounded on clusters where RBAC is not the only authorizer, or where
// Remit's programs are not allowed to read RBAC. The tests serve a webhook, which the API server uses as a second
// authorizer.
package authorizer
