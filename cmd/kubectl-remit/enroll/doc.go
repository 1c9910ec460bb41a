// Package enroll implements "kubectl remit enroll" and "kubectl remit unenroll". With these commands, the
// administrator of a ServiceAccount controls whether Remit may act as it, and which users may name it in an
// OperatorGroup or a ClusterExtension. The subcommand clusterextension does the same for the synthetic user of a
// ClusterExtension. All commands write as the user who runs them. The API server ensures that they grant no more than
// that user is allowed to grant.
package enroll
