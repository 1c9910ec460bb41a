// Package clusterextension installs, upgrades and maintains ClusterExtensions, and is the only writer of their status.
//
//	spec --findIdentity--> identity --resolveBundle--> bundle --renderObjects--> steps --checkPermissions--> report
//	     --openClients--> tryObjects (collisions, dry run) --applyPhases (probes)--> prune --> settled
//
// Everything that belongs to an extension is written as its identity: a ServiceAccount, or a synthetic user that has no
// permissions until an administrator grants them (docs/adr/0044). The controller identity writes only the status and the
// finalizer of the ClusterExtension, and a ConfigMap with the report. Nothing is written until the identity has all permissions
// that the whole install needs and the API server has accepted each object in a dry run.
//
// # Waiting
//
// While a ClusterExtension waits, the controller sends no requests for it. It is woken by changes to what it waits for: the
// catalogs, RBAC, its ServiceAccount and namespace, CustomResourceDefinitions, and its own objects. Only waits that might end
// without a watch event, such as for a quota or for Pods to terminate, are retried, at increasing intervals.
//
// # What is remembered
//
// The state of an install is derived from the cluster. status.install records which version is installed, which determines the
// upgrades that the catalog provides; it grants no permissions. memory only avoids repeated requests: after a restart, each
// object is read once, and objects in the desired state are not written.
//
// # Watches
//
// Objects of kinds that the controller identity reads for its checks are watched with its own cache. All other objects
// are watched as the identity of the extension, if it is allowed to: one by one or, if there are many of a kind, together.
// The number of watches is limited; the status reports objects that are not watched. See watches and scopes.
package clusterextension
