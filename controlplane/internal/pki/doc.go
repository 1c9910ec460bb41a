// Package pki creates the certificates and kubeconfigs of one control plane.
//
// There are two authorities, because a requestheader (front-proxy) authority can authenticate any user name and must
// therefore never be the authority that signs the certificates of ordinary clients. The authorities and the
// ServiceAccount key are kept in the state directory, so that kubeconfigs and tokens survive a restart. Leaf
// certificates are issued at each start, which takes about a millisecond.
//
// Nothing here is suitable for a real cluster: keys are stored in files that only the owner can read, and there is no
// rotation.
package pki
