// Package lockdown tests installations with more options than a profile: a default account that only some namespaces
// may use, and an account that writes CustomResourceDefinitions for all namespaces.
package lockdown
