// Package bundlev2 is the bundle of the sample operator's second version. It adds a version of the Greeting API with a
// conversion between the two, a validating and a mutating webhook, and an API server for Echoes. An operator with a
// conversion webhook must support only AllNamespaces, so this one does.
package bundlev2
