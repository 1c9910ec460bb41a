// Package install holds what the resolver and the csv controller share about installing a
// ClusterServiceVersion: the check of its permissions against a ServiceAccount. The installers for
// its parts live in the packages below.
package install
