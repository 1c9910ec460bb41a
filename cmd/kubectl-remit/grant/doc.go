// Package grant implements "kubectl remit grant", which determines what an InstallPlan or a ClusterExtension is missing, and
// creates the RBAC that grants it with the user's credentials. It shares the check with "kubectl remit preflight", and takes nothing
// that it grants from statuses, Events or reports, because other users can write them. The status of an InstallPlan can only prevent a
// grant. An InstallPlan itself may also be the work of other users, so its content is compared with its CatalogSource or with a bundle
// that the user specifies.
package grant
