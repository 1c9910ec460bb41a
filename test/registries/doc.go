// Package registries tests catalog images that are registries: their Pods run in the global catalog namespace, are
// replaced, and are deleted.
package registries
