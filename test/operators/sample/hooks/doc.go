// Package hooks serves the webhooks of the sample operator's second version: a validating webhook that refuses
// Greetings that say goodbye, a mutating webhook that marks Greetings, and the conversion between v1 and v2 of their
// API. It serves with the certificate in the default location for operators, and reloads it without a restart.
package hooks
