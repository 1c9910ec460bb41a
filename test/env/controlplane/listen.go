package controlplane

// ListenIP is how the arguments of a container refer to the address on which its process must listen. Pods are
// processes on one machine, possibly of several control planes: one that listens on all addresses would take the port
// from all others.
const ListenIP = "$(REMIT_POD_LISTEN_IP)"
