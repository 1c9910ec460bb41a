// Package serving renders the objects that a ClusterServiceVersion's Deployments need to serve webhooks or APIs: a
// Service, a Secret with certificates, and the objects that allow the operator's ServiceAccount to read that Secret
// (OLM v0 contract). [Served] lists these Deployments; the methods of [Input] render the objects; [Mount] mounts the
// certificates where operators expect them. Package cert decides when certificates are issued and rotated.
package serving
