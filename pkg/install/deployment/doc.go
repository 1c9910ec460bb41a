// Package deployment renders and installs the Deployments of a ClusterServiceVersion's install strategy and reports
// their status.
//
// [Desired] has no side effects: it sets the labels, annotations and environment variables that the contract of
// OLM v0 defines and applies the Subscription's config. [Installer] writes the Deployments with a client that is
// authenticated as the account. [Status] evaluates the status of one Deployment.
//
// # Pod annotations from the ClusterServiceVersion
//
// OLM copies all annotations of the ClusterServiceVersion to the Pods, and operators read some of them through the
// downward API. This package copies only annotations that have no prefix or a prefix of the operator framework or an
// operator console, and that are at most 4 KiB long (the annotation alm-examples of published bundles can reach 100
// KiB; it would be stored in every Pod and ReplicaSet, where it is not used). The annotations that list the namespaces
// to watch are taken from the OperatorGroup, because the author of the ClusterServiceVersion or another user could have
// edited the annotations of the ClusterServiceVersion.
package deployment
