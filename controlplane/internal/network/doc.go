// Package network gives Pods addresses and makes them reachable without a CNI plugin, kube-proxy, DNS or root.
//
// Linux lets every process bind to any address in 127.0.0.0/8. Each control plane therefore picks a number N that no
// other control plane on the machine uses, Pods get addresses 10.N.x.y (the API rejects loopback addresses in
// EndpointSlices), and a process that listens on 127.N.x.y represents that Pod. The mapping is pure arithmetic, so
// there is no state to lose.
//
//	10.N.0.1   .. 10.N.199.254    Pods, assigned by the node stand-in
//	10.N.200.0 .. 10.N.254.255    reserved for tests that simulate a Pod
//	10.N.255.252                  the proxy for Pod processes and in-process clients
//	10.N.255.253                  the node (kubelet API)
//	10.N.255.254                  the API server
//
// The API server reaches Pods through the Proxy on a unix socket (egress selector "cluster"). All other clients use the
// same Proxy as HTTP_PROXY/HTTPS_PROXY on a TCP port; it also resolves Service names and cluster IPs.
package network
