// Package keyed contains a map that is safe for concurrent use: what a controller remembers of each object between
// reconciles.
package keyed

import (
	"maps"
	"sync"
)

// Map is safe for concurrent use. The zero value is empty. A value that contains pointers or maps must only be changed
// by Change, or by the one goroutine that reconciles its key.
type Map[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

// Get returns a value, or the zero value if there is none.
func (m *Map[K, V]) Get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// Change changes a value, which is the zero value at first, and returns it. The function must not block.
func (m *Map[K, V]) Change(key K, change func(*V)) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[K]V{}
	}
	value := m.values[key]
	change(&value)
	m.values[key] = value
	return value
}

// Set replaces a value.
func (m *Map[K, V]) Set(key K, value V) {
	m.Change(key, func(v *V) { *v = value })
}

// Delete removes a value, and returns it.
func (m *Map[K, V]) Delete(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	value := m.values[key]
	delete(m.values, key)
	return value
}

// DeleteFunc removes the values of all keys for which a function returns true. The function must not block.
func (m *Map[K, V]) DeleteFunc(of func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.values, func(key K, _ V) bool { return of(key) })
}

// Each calls a function for all values. The function must not block.
func (m *Map[K, V]) Each(each func(K, V)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, value := range m.values {
		each(key, value)
	}
}
