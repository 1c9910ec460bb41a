// Package node is the stand-in for a machine with a kubelet: it registers one Node, renews its Lease, and runs a worker
// (see package pod) for every Pod that the scheduler binds to the Node. It also serves the part of the kubelet's API
// behind `kubectl logs`.
//
// It has no container runtime. Package pod describes how it runs containers instead.
package node

// Name is the name of the only node.
const Name = "remit-node"
