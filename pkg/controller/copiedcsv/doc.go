// Package copiedcsv copies each ClusterServiceVersion into the target namespaces of its OperatorGroup, so that their users see
// which operators serve them, and maintains the status of OLMConfig. A copy is inert: it has the label olm.copiedFrom, and
// nothing installs it.
//
// The copies are written as the controller identity, but only into namespaces in which the account of the source may create
// ClusterServiceVersions itself (docs/adr/0053). Remit changes and deletes only copies with a proof that Remit created them.
//
// The cache contains only the metadata of copies. A copy is settled if its annotation remit.dev/copy-hash is that of the
// desired content, and no other client has written it since. Otherwise, its status and its content are overwritten by
// JSON patches, which do not depend on the previous content.
package copiedcsv
