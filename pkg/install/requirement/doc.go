// Package requirement determines what a ClusterServiceVersion requires before it is installed, regardless of who
// installs it: the API server's version, CustomResourceDefinitions, APIs. The csv controller reports it and waits for
// it; a plan checks it before it starts an install early.
package requirement
