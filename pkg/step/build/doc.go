// Package build turns a parsed bundle into the steps of a plan: every object with its final name, namespace and owner
// labels, in the order of application. It has no side effects.
//
// It compares the CSV's permissions with the account's (NewStepResourceFromBundle -> NewServiceAccountStepResources ->
// RBACForClusterServiceVersion). Permissions that the account does not have are returned with the steps, as an
// explanation. The RBAC objects are built from the CSV's spec and never copied from labeled objects.
package build
