// Command controlplane is a whole Kubernetes control plane in one process: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and a stand-in for one node. It needs no root, no container runtime and no network: everything listens on
// 127.0.0.0/8, all state is in one directory, and several of them on one machine do not meet.
//
// It serves the project's tests and `kubectl remit run`. It is not for production: keys lie in files, etcd does not sync to disk,
// and containers are local processes or nothing at all (package pod says which).
//
// When it is usable it prints one JSON line (see readyLine) and nothing else on stdout. It ends on SIGTERM or SIGINT with exit code
// 0, and by itself when its users are gone (--users, --tether).
//
// This is a module of its own, because it needs k8s.io/kubernetes, whose dependencies the product must not inherit. It imports
// nothing of the product and nothing imports it: the seam is a process and a kubeconfig.
package main
