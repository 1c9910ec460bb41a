// Package node is the stand-in for a machine with a kubelet: it registers one Node, keeps its Lease fresh, and hands every Pod
// that the scheduler binds to it to a worker of package pod. It also serves the part of the kubelet's API behind `kubectl logs`.
//
// It has no container runtime. What it offers instead is written in package pod.
package node

// Name is the name of the one node.
const Name = "remit-node"
