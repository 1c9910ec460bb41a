// Package grants determines the permissions of accounts: from the RBAC objects of a cluster, from access reviews by its
// API server if RBAC cannot be read, or from a directory of manifests without a cluster.
package grants
