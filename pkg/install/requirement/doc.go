// Package requirement looks up what a ClusterServiceVersion needs to be there before it is installed, whoever
// installs it: the API server's version, CustomResourceDefinitions, APIs. The csv controller shows it and
// waits for it; a plan asks it before it gives an install a head start.
package requirement
