// Package hooks serves the webhooks of the sample operator's second version: a validating webhook that refuses Greetings that
// say goodbye, a mutating webhook that labels Greetings, and the conversion between versions v1 and v2 of the Greeting API. It
// uses the certificate in the default location for operators and reloads it without a restart.
package hooks
