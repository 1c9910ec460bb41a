// Package v1 is the API of the sample operator: sample.remit.dev/v1, kind Greeting. Its CRD is in the bundle's
// manifests. Only the sample operator and its tests use this package.
package v1
