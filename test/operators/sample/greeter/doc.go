// Package greeter reconciles Greetings. Each one becomes a ConfigMap with its message and a Deployment of greeters,
// both owned by it, and is Ready when the greeters are available. Pure functions build the desired objects
// (desired.go), which are applied server-side without force. The sample operator's main is its only caller.
package greeter
