package aws

import (
	"maps"
	"slices"
	"sync"
)

// memory keeps by key what need not be asked again. The zero value is empty. It may be used by
// several goroutines at once.
type memory[K comparable, V any] struct {
	mu     sync.Mutex // guards all below
	values map[K]V
}

// recall is what is kept under the key, the zero value for nothing.
func (m *memory[K, V]) recall(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// keep adds news to what is known.
func (m *memory[K, V]) keep(news map[K]V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[K]V{}
	}
	maps.Copy(m.values, news)
}

// forget drops what is kept under the key.
func (m *memory[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}

// all is a copy of what is known.
func (m *memory[K, V]) all() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values)
}

// fill is what is kept under the keys. fetch is asked for what is not known, each key once, and
// what it finds is kept. Its error is returned with all that is known by then.
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
