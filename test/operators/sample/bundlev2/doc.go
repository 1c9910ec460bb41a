// Package bundlev2 is the bundle of the sample operator's second version. It adds a version of the Greeting API with a
// conversion from and to the first version, a validating and a mutating webhook, and an API server for Echoes. It
// supports only AllNamespaces, as required for an operator with a conversion webhook.
package bundlev2
