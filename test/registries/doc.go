// Package registries tests catalog images that are registries: how their Pods run in the global catalog namespace and
// are replaced and deleted.
package registries
