// Package grants determines the permissions of accounts: from the RBAC objects of a cluster, from its API
// server's answers if these cannot be read, or from a directory of manifests without a cluster.
package grants
