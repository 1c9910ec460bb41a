// Package provided describes the APIs that ClusterServiceVersions provide, the ClusterRoles for them, and conflicts
// between OperatorGroups that provide the same API to the same namespace (OLM v0 contract).
//
// Conflicts are determined from facts that other tenants cannot forge: proven Deployments and the permissions of
// accounts. The annotation olm.providedAPIs of another OperatorGroup is never read.
package provided
