// Package hooks tests webhooks, conversions, APIs and their certificates with real calls: the operator's Pods are
// processes, and the API server calls them.
package hooks
