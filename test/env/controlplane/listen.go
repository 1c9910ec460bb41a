package controlplane

// ListenIP is how the arguments of a container name the address that its process is to listen on.
// Pods are processes on one machine, maybe of several control planes: one that listens on all addresses
// takes the port from all others.
const ListenIP = "$(REMIT_POD_LISTEN_IP)"
