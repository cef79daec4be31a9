package aws

import (
	"maps"
	"slices"
	"sync"
)

// cache stores values that need not be read again. The zero value is an empty cache. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	mu     sync.Mutex // guards all below
	values map[K]V
}

// get returns the value of the key, or the zero value if the key is not cached.
func (m *cache[K, V]) get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// add adds news to the cache.
func (m *cache[K, V]) add(news map[K]V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil {
		m.values = map[K]V{}
	}
	maps.Copy(m.values, news)
}

// remove deletes the key.
func (m *cache[K, V]) remove(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}

// snapshot returns a copy of the cache.
func (m *cache[K, V]) snapshot() map[K]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values)
}

// getOrFetch returns the values of the keys. It calls fetch once with all keys that are not cached, and caches the result. If
// fetch fails, getOrFetch returns the error and all values that are known.
func (m *cache[K, V]) getOrFetch(keys []K, fetch func(unknown []K) (map[K]V, error)) (map[K]V, error) {
	kept, known, others := m.snapshot(), make(map[K]V, len(keys)), map[K]bool{}
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
	m.add(news)
	maps.Copy(known, news)
	return known, err
}
