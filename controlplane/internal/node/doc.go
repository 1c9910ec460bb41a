// Package node is the stand-in for a machine with a kubelet: it registers one Node, renews its Lease, and assigns
// every Pod that the scheduler binds to it to a worker of package pod. It also serves the part of the kubelet's API
// behind `kubectl logs`.
//
// It has no container runtime. Package pod describes what it offers instead.
package node

// Name is the name of the only node.
const Name = "remit-node"
