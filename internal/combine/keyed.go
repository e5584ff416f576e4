package combine

import "sync"

// Keyed holds a value for each key that calls use at the moment, and forgets it with the last of them. The zero value
// is ready for use.
type Keyed[K comparable, V any] struct {
	mu sync.Mutex
	by map[K]*used[V]
}

type used[V any] struct {
	value V
	calls int // how many calls use the value
}

// Use is the value of a key, which create makes for the first call. The caller calls done when it is through.
func (k *Keyed[K, V]) Use(key K, create func() V) (value V, done func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	u := k.by[key]
	if u == nil {
		if k.by == nil {
			k.by = map[K]*used[V]{}
		}
		u = &used[V]{value: create()}
		k.by[key] = u
	}
	u.calls++
	return u.value, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if u.calls--; u.calls == 0 {
			delete(k.by, key)
		}
	}
}
