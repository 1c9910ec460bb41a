// Package pki makes the certificates and kubeconfigs of one control plane.
//
// Two authorities exist, because a requestheader (front-proxy) authority may vouch for any user name and must therefore never
// be the authority of ordinary clients. The authorities and the ServiceAccount key are kept in the state directory, so that
// kubeconfigs and tokens survive a restart; leaf certificates are made anew at each start, which takes about a millisecond.
//
// Nothing here is meant for a real cluster: keys lie in files readable by the owner only, and there is no rotation.
package pki
