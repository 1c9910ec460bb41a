// Package cert decides about the serving certificates of an operator's webhooks and API servers: when
// one is issued, when the next takes over, and which authorities callers must trust meanwhile. It reads
// and writes nothing: the caller says what there is ([Observed]) and what time it is, and stores the
// [Set] that comes back.
//
// # One authority for each certificate
//
// Each serving certificate has a certificate authority of its own, whose private key is thrown away as
// soon as the certificate is signed: nothing can be signed by it again. The set of a Deployment lies in
// one Secret (contract 1.12): the pair in use, and around a rotation one more pair or authority.
//
// # Rotation without a failed call
//
// Whoever calls must trust a new authority before anybody serves by it, and the old one for as long as
// somebody does. A rotation therefore has steps, any of which can be interrupted:
//
//	         Secret                         caBundles      Pods
//	         pair 1                         CA 1           serve by pair 1
//	Stage    pair 1, next: pair 2           CA 1 and CA 2
//	Promote  pair 2, previous: CA 1         CA 1 and CA 2  are rolled by the hash of CA 2
//	Retire   pair 2                         CA 2           serve by pair 2
//
// Where the account may not write one of these, the rotation stops there, and nothing breaks before the
// certificate expires.
//
// # Whose authority it is
//
// A Secret can be edited by anyone who may write it. An authority in it counts only if it was recorded
// elsewhere when it was issued ([Observed.Recorded]); one that Remit did not issue never reaches a
// caBundle. What was edited is replaced by a pair issued anew.
package cert
