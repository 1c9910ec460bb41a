// Package grant implements "kubectl remit grant", which determines what an InstallPlan or a ClusterExtension is missing, and
// creates the RBAC that grants it with the user's credentials. It shares the check with "kubectl remit preflight", and reads nothing
// from statuses, Events or reports, because other users can write them.
package grant
