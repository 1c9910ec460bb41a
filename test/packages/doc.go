// Package packages contains the user stories of the packagemanifests API (docs/kinds/packagemanifest.md), on a control plane
// with the manifests in manifests/packages.
package packages
