// Package authorizer tells what becomes of the bound where RBAC is not all there is: on a cluster with a
// second authorizer, a webhook that this test serves, and where Remit itself may not read RBAC.
package authorizer
