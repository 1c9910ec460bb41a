// Package install checks whether a ServiceAccount has the permissions that a ClusterServiceVersion requires. The
// resolver and the csv controller share this check. The subpackages install the parts of a ClusterServiceVersion.
package install
