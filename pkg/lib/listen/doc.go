// Package listen limits what clients without credentials can take from a program through its ports: the number of
// connections, in total and for each client address, the size of headers, and the time that a request may take. Pace limits
// how slowly any client may read its response.
//
// A port that is full still accepts clients that have few connections: the client with the most connections loses its
// oldest one. Therefore the probes of the kubelet and the requests of the kube-apiserver are served while other clients
// keep as many connections as they can. A server that authenticates its clients can exempt the connections of the
// kube-apiserver (Trust), and can limit what all others send before they are authenticated (Limits.Unserved).
//
// Every server of Remit uses it: the health, metrics and content ports, and the API of package-server.
package listen
