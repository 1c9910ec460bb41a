// Package deployment renders and installs the Deployments of a ClusterServiceVersion's install strategy and reports
// their status.
//
// [Desired] is pure: it sets the labels, annotations and environment of the contract (OLM v0, 1.11) and applies the
// Subscription's config. [Installer] writes the Deployments with a client that is authenticated as the account.
// [Status] evaluates a Deployment's own status.
//
// # Annotations of the ClusterServiceVersion on its Pods
//
// OLM copies all of them, and operators read some through the downward API. They are copied here as well, with three
// exceptions: kubectl's last-applied configuration, Remit's own annotations, and values longer than 4 KiB
// (alm-examples of real bundles reach 100 KiB, would be stored once per Pod and ReplicaSet, and are not used there).
// The annotations with the namespaces to watch come from the OperatorGroup, not from the ClusterServiceVersion, which
// its author or another user could have edited.
package deployment
