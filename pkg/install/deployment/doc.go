// Package deployment renders and installs the Deployments of a ClusterServiceVersion's install
// strategy, and says how they fare.
//
// [Desired] is pure: labels, annotations and environment of the contract (OLM v0, 1.11), with the
// Subscription's config on top. [Installer] writes them with the client that it is given, which is
// authenticated as the account. [Status] reads a Deployment's own status.
//
// # Annotations of the ClusterServiceVersion on its pods
//
// OLM copies all of them, and operators do read some through the downward API, so all are copied
// here too but for three: kubectl's last-applied configuration, Remit's own, and what is longer than
// 4 KiB (alm-examples of real bundles reach 100 KiB, would be stored once per pod and once per
// ReplicaSet, and nothing reads them there). Those that say which namespaces to watch are not taken
// from the ClusterServiceVersion, whose author or anybody may write them, but from the OperatorGroup.
package deployment
