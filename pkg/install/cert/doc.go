// Package cert decides about the serving certificates of an operator's webhooks and API servers: when one is issued,
// when the next takes over, and which CAs callers must trust meanwhile. It performs no I/O: the caller passes the
// observed state ([Observed]) and the time, and stores the returned [Set].
//
// # One CA per certificate
//
// Each serving certificate has its own CA, whose private key is discarded as soon as the certificate is signed, so it
// can sign nothing else. The set of a Deployment is stored in one Secret (contract 1.12): the pair in use and, during
// a rotation, one more pair or CA.
//
// # Rotation without a failed call
//
// Callers must trust a new CA before any Pod uses it, and the old CA as long as any Pod uses it. A rotation therefore
// has steps, each of which can be interrupted:
//
//	         Secret                         caBundles      Pods
//	         pair 1                         CA 1           use pair 1
//	Stage    pair 1, next: pair 2           CA 1 and CA 2
//	Promote  pair 2, previous: CA 1         CA 1 and CA 2  are rolled to pair 2
//	Retire   pair 2                         CA 2           use pair 2
//
// If the account may not write one of these, the rotation stops there. Nothing breaks before the certificate expires.
//
// # Whose CA it is
//
// Everyone with write access can edit a Secret. A CA in it counts only if it was recorded outside the Secret when it
// was issued ([Observed.Recorded]); a CA that Remit did not issue never reaches a caBundle. Edited parts are replaced
// by a newly issued pair.
package cert
