package store

import (
	"maps"

	"k8s.io/apimachinery/pkg/labels"
)

// Labels are the labels of a PackageManifest. Those that all packages of a catalog have are in memory once, not once for each
// package. Labels reference no Entry, so that watches can keep them.
type Labels struct {
	// own are the labels of the package. They take precedence over shared, the labels of all packages of the catalog.
	own, shared map[string]string
}

var _ labels.Labels = Labels{}

// Lookup implements labels.Labels.
func (l Labels) Lookup(key string) (value string, exists bool) {
	if value, exists = l.own[key]; !exists {
		value, exists = l.shared[key]
	}
	return value, exists
}

// Has implements labels.Labels.
func (l Labels) Has(key string) bool {
	_, exists := l.Lookup(key)
	return exists
}

// Get implements labels.Labels.
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// Map returns all labels.
func (l Labels) Map() map[string]string {
	out := make(map[string]string, len(l.shared)+len(l.own))
	maps.Copy(out, l.shared)
	maps.Copy(out, l.own)
	return out
}

// sizeOf estimates the memory of labels.
func sizeOf(all map[string]string) int64 {
	n := 0
	for key, value := range all {
		n += labelOverhead + len(key) + len(value)
	}
	return int64(n)
}
