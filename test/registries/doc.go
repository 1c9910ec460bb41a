// Package registries tests catalog images that are registries: how their Pods run in the global catalog namespace, how they are
// replaced, and how they are deleted.
package registries
