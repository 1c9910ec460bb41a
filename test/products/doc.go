// Package products walks all pairs of lists and maps that a tenant can fill in a ClusterServiceVersion, in the config of a
// Subscription or ClusterExtension, and in a catalog. It finds them by reflection, fills the two of a pair so that both
// fit into 1.5 MB of API objects, runs everything that expands them, and checks how much memory and how many steps that takes
// (docs/adr/0066). A list that a later version of an API adds is part of the walk without a change here.
package products
