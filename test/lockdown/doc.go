// Package lockdown runs installations whose operator chose more than a profile: a default account that
// only some namespaces may use, and an account that writes CustomResourceDefinitions for all.
package lockdown
