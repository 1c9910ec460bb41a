// Package greeter reconciles Greetings. For each Greeting, it creates a ConfigMap with the message and a Deployment of
// greeters, both owned by the Greeting. The Greeting is Ready when the greeters are available. Pure functions build the desired
// objects (desired.go), which are applied server-side without force. The sample operator's main is its only caller.
package greeter
