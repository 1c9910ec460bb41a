// Package build turns a parsed bundle into the steps of a plan, purely: every object with its final
// name, namespace and owner marks, in the order of application.
//
// What a CSV asks for in permissions is held against the account on the way down
// (NewStepResourceFromBundle -> NewServiceAccountStepResources -> RBACForClusterServiceVersion,
// seed 001): what exceeds it is returned with the steps, as explanation. The RBAC objects are built
// from the CSV's spec, never copied from labelled objects.
package build
