// Package component runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler inside this process.
//
// Each component is built from its options package and not from its cobra command, because the commands install
// signal handlers (doing so twice panics) and configure logging (doing so twice is an error). Options are still passed
// as flags, which are the documented interface of the components. Feature gates, klog and configz are process-wide,
// so there is one control plane per process.
//
// Every constructor starts the component and returns a Running. Components are stopped in reverse order.
package component
