// Package greeter reconciles Greetings: each becomes a ConfigMap with its message and a Deployment of
// greeters, both owned by it, and is Ready once the greeters are available. What is wanted is built
// by pure functions (desired.go) and applied server-side without force. The sample operator's main
// is its only caller.
package greeter
