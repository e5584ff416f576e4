package page

import (
	"sync"
	"time"
)

// cache keeps values that are costly to make for a while, by keys.
type cache[T any] struct {
	fresh time.Duration // how old a value may be; a value that took long to make may be ten times as old as that time
	most  int           // how many values are kept

	mu   sync.Mutex
	list map[string]*cached[T]
}

type cached[T any] struct {
	once  sync.Once
	at    time.Time
	fresh time.Duration
	value T
	err   error
}

// get returns the value of a key, and makes it if there is none or it is too old. If several callers ask
// meanwhile, it is made once. An error is kept for a second at most.
func (c *cache[T]) get(key string, make func() (T, error)) (T, error) {
	c.mu.Lock()
	one := c.list[key]
	if one == nil || time.Since(one.at) > one.fresh {
		if len(c.list) >= c.most || c.list == nil {
			c.list = map[string]*cached[T]{}
		}
		one = &cached[T]{at: time.Now(), fresh: 2 * callTime} // stands for the value until that is made
		c.list[key] = one
	}
	c.mu.Unlock()
	one.once.Do(func() {
		one.value, one.err = make()
		c.mu.Lock()
		defer c.mu.Unlock()
		if one.err != nil {
			one.fresh = min(fresh, c.fresh)
		} else {
			one.fresh = max(c.fresh, 10*time.Since(one.at))
		}
		time.AfterFunc(one.fresh, func() { c.drop(key, one) })
	})
	return one.value, one.err
}

// drop removes a value that is too old, since it may be large.
func (c *cache[T]) drop(key string, one *cached[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list[key] == one {
		delete(c.list, key)
	}
}

func (c *cache[T]) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = nil
}
