// Package keyed provides a map that is safe for concurrent use. Controllers use it to keep data about objects between
// reconciles.
package keyed

import (
	"maps"
	"sync"
)

// Map is a map that is safe for concurrent use. The zero value is an empty map. If a value contains pointers or maps,
// modify the data that they refer to only in Change, or only in the goroutine that reconciles the value's key.
type Map[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

// Get returns the value of a key, or the zero value if there is none.
func (m *Map[K, V]) Get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// Change calls a function that changes the value of a key, and returns the new value. If the key has no value, the
// function gets a pointer to the zero value. The function must not block.
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

// Set sets the value of a key.
func (m *Map[K, V]) Set(key K, value V) {
	m.Change(key, func(v *V) { *v = value })
}

// Delete removes a key and returns its value, or the zero value if there is none.
func (m *Map[K, V]) Delete(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	value := m.values[key]
	delete(m.values, key)
	return value
}

// DeleteFunc removes all keys for which a function returns true. The function must not block.
func (m *Map[K, V]) DeleteFunc(of func(K) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.values, func(key K, _ V) bool { return of(key) })
}

// Each calls a function for each key and value. The function must not block.
func (m *Map[K, V]) Each(each func(K, V)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, value := range m.values {
		each(key, value)
	}
}
