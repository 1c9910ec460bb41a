// Package build turns a parsed bundle into the steps of a plan: every object with its final name, namespace and owner
// labels, in the order of application. It is pure.
//
// The CSV's permissions are compared with the account's in the process (NewStepResourceFromBundle ->
// NewServiceAccountStepResources -> RBACForClusterServiceVersion, seed 001). Those that exceed the account are
// returned with the steps, as an explanation. The RBAC objects are built from the CSV's spec and never copied from
// labeled objects.
package build
