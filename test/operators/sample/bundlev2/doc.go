// Package bundlev2 is the bundle of the sample operator's second version. It adds a version to the API of
// Greetings with a conversion between the two, a validating and a mutating webhook, and an API server
// for Echoes. A conversion webhook may only be shipped by an operator for all namespaces, so this one is.
package bundlev2
