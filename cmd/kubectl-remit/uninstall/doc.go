// Package uninstall implements "kubectl remit uninstall", which deletes a Subscription and the ClusterServiceVersions of
// its package as the user who runs it, waits until Remit has removed their objects, and reports what remains.
package uninstall
