// Package assess determines what a ClusterExtension installs, as which identity, and which permissions that requires. The
// clusterextension controller and "kubectl remit" use the same functions, so their reports agree.
//
//	ClusterExtension --Request--> resolve.Resolve --> bundle --Owner, Config--> render.Render --Steps--> Needs
//
// The functions are pure. Callers determine what depends on existing objects: preflight.SchemaNeeds for existing
// CustomResourceDefinitions, [Removal] for the objects of earlier versions.
package assess
