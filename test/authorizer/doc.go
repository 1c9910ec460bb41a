// Package authorizer tests the bound on clusters where RBAC is not the only authority: with a second authorizer, a
// webhook that this test serves, and with programs that have no permission to read RBAC.
package authorizer
