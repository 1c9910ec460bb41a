// Package cert decides when the serving certificates of an operator's webhooks and API servers are issued and replaced,
// and which CAs callers must trust in the meantime. It performs no I/O: the caller passes the observed state
// ([Observed]), including the time, and stores the returned [Set].
//
// # One CA per certificate
//
// Each serving certificate has its own CA, whose private key is discarded as soon as the certificate is signed, so the
// CA cannot sign anything else. The set of a Deployment is stored in one Secret (OLM v0 contract): the pair in use and,
// during a rotation, one more pair or CA.
//
// # Rotation without failed calls
//
// Callers must trust a new CA before any Pod uses it, and the old CA for as long as any Pod uses it. A rotation
// therefore has steps, each of which can be interrupted:
//
//	         Secret                         caBundles      Pods
//	         pair 1                         CA 1           use pair 1
//	Stage    pair 1, next: pair 2           CA 1 and CA 2
//	Promote  pair 2, previous: CA 1         CA 1 and CA 2  are rolled to pair 2
//	Retire   pair 2                         CA 2           use pair 2
//
// If the account is not allowed to perform one of these writes, the rotation stops there. Nothing breaks before the
// certificate expires.
//
// # Only CAs that Remit issued are trusted
//
// Anyone with write access can edit a Secret. Remit uses a CA from a Secret only if the CA's hash was recorded outside
// the Secret when the CA was issued ([Observed.Recorded]); a CA that Remit did not issue never reaches a caBundle. If
// a pair in the Secret was edited, Remit issues a new pair to replace it.
package cert
