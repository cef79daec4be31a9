package aws

import (
	"maps"
	"slices"
	"sync"
)

// memory is a cache of values that need not be read again. The zero value is empty. It is safe for
// concurrent use.
type memory[K comparable, V any] struct {
	mu     sync.Mutex // guards all below
	values map[K]V
}

// recall returns the value of the key, or the zero value.
func (m *memory[K, V]) recall(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// keep adds news to the cache.
func (m *memory[K, V]) keep(news map[K]V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[K]V{}
	}
	maps.Copy(m.values, news)
}

// forget deletes the key.
func (m *memory[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}

// all returns a copy of the cache.
func (m *memory[K, V]) all() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values)
}

// fill returns the values of the keys. It calls fetch for the keys that are not cached, each once,
// and keeps the result. If fetch fails, fill returns its error with all values that are known by
// then.
func (m *memory[K, V]) fill(keys []K, fetch func(unknown []K) (map[K]V, error)) (map[K]V, error) {
	kept, known, others := m.all(), make(map[K]V, len(keys)), map[K]bool{}
	for _, key := range keys {
		if value, ok := kept[key]; ok {
			known[key] = value
		} else {
			others[key] = true
		}
	}
	if len(others) == 0 {
		return known, nil
	}
	news, err := fetch(slices.Collect(maps.Keys(others)))
	m.keep(news)
	maps.Copy(known, news)
	return known, err
}
