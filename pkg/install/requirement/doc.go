// Package requirement determines the requirements of a ClusterServiceVersion that must be met before it is installed,
// regardless of who installs it: the API server's version, CustomResourceDefinitions and APIs. The csv controller
// reports them and waits until they are met. The installplan controller checks them before it writes Deployments itself
// (docs/adr/0011).
package requirement
