// Package registries runs catalog images that are registries: Pods in the global catalog namespace that serve, are replaced and go.
package registries
