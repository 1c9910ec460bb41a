// Package lockdown tests options that the profiles do not set: a default account that only some namespaces may use, and
// an account that writes CustomResourceDefinitions for all namespaces.
package lockdown
