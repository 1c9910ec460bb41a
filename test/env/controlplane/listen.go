package controlplane

// ListenIP is the placeholder, in the arguments of a container, for the address on which its process must listen. Pods
// are processes on one machine, possibly of several control planes. A process that listens on all addresses would block
// the port for all other Pods.
const ListenIP = "$(REMIT_POD_LISTEN_IP)"
