// Package hooks is what the second version of the sample operator is called by: a validating webhook that
// refuses Greetings which say goodbye, a mutating one that marks Greetings, and the conversion between
// v1 and v2 of their API. It serves with the certificate that lies where operators look for it, and
// loads a new one without being restarted.
package hooks
