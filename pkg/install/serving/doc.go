// Package serving gives the Deployments of a ClusterServiceVersion that serve webhooks or APIs what they
// are called through and served by: a Service, a Secret with certificates, and the right of the
// operator's ServiceAccount to read that Secret (contract 1.12).
//
// [Served] says which Deployments serve what; [Desired] renders the objects; [Mount] puts the certificates
// where operators look for them. What the certificates are is decided by package cert.
package serving
