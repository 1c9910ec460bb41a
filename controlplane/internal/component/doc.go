// Package component runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler inside this process.
//
// Each component is built from its own options package and never from its cobra command: the commands install signal handlers
// (a second one panics) and configure logging (a second time is an error). Flags are still given as flags, because they are the
// documented interface of the components. Feature gates, klog and configz are process-wide, so one control plane per process is
// the rule.
//
// Every constructor starts the component and returns a Running; stopping goes in the opposite order of starting.
package component
