// Package grants says what accounts hold: by the RBAC objects of a cluster, by the answers of its API
// server where those may not be read, or by a folder of manifests where there is no cluster.
package grants
