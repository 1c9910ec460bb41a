// Command controlplane is a complete Kubernetes control plane in one process: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and a stand-in for one node. It needs no root privileges, no container
// runtime and no network: everything listens on 127.0.0.0/8, all state is in one directory, and several control planes
// on one machine do not interfere.
//
// The project's tests and `kubectl remit run` use it. It is not for production: keys are stored in files, etcd does
// not sync to disk, and containers are local processes or only simulated (see package pod).
//
// When it is usable, it prints one JSON line (see readyLine) and nothing else on stdout. It exits with code 0 on
// SIGTERM or SIGINT, and when its users have exited (--users, --tether).
//
// It is a separate module, because it needs k8s.io/kubernetes, whose dependencies the product must not inherit. It
// imports nothing from the product and nothing imports it: the interface is a process and a kubeconfig.
package main
