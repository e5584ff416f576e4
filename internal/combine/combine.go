// Package combine merges the calls of many goroutines into few: while a batch is
// under way, the calls that come wait, and go together in the next one. Under load
// the batches grow by themselves; a call that meets no other is made at once, by its
// caller. This is group commit, as databases do it for their logs (DeWitt et al.,
// Implementation Techniques for Main Memory Database Systems, 1984).
package combine

import (
	"context"
	"sync"
	"time"
)

// Calls merges calls that ask Q and are answered A. Its functions may be called from
// many goroutines at once.
type Calls[Q, A any] struct {
	// Do makes the calls of a batch together, and answers each of them once, by its
	// place. The context ends when no caller waits any more.
	Do func(ctx context.Context, batch []Q, answer func(i int, a A, err error))
	// Left gets the answer to a call whose caller had gone by then. nil: it is dropped.
	Left func(Q, A)
	// Size is how much of Most a call takes. A batch of one may be larger.
	Size func(Q) int
	Most int
	// Slow is how long a batch holds up the calls behind it: those that wait longer
	// go in a batch beside it.
	Slow time.Duration

	mu       sync.Mutex
	waiting  []*call[Q, A]
	underway int
	watch    *time.Timer // for the first of waiting, while there is one
}

type call[Q, A any] struct {
	q      Q
	answer A
	err    error
	done   chan struct{}
	batch  *batch // nil while it waits
	gone   bool   // its caller no longer waits
}

// batch is what the calls made together share.
type batch struct {
	callers int // that still wait
	cancel  context.CancelFunc
}

// Call asks q. If ctx ends first, whether the call took effect is not known.
func (c *Calls[Q, A]) Call(ctx context.Context, q Q) (A, error) {
	c.mu.Lock()
	if c.underway == 0 {
		c.underway++
		c.mu.Unlock()
		defer c.ended()
		return c.alone(ctx, q)
	}
	w := &call[Q, A]{q: q, done: make(chan struct{})}
	c.waiting = append(c.waiting, w)
	if c.watch == nil {
		c.watch = time.AfterFunc(c.Slow, c.late)
	}
	c.mu.Unlock()
	select {
	case <-w.done:
		return w.answer, w.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-w.done: // meanwhile
		return w.answer, w.err
	default:
	}
	w.gone = true
	if w.batch != nil {
		if w.batch.callers--; w.batch.callers == 0 {
			w.batch.cancel()
		}
	}
	var none A
	return none, ctx.Err()
}

func (c *Calls[Q, A]) alone(ctx context.Context, q Q) (answer A, err error) {
	c.Do(ctx, []Q{q}, func(_ int, a A, e error) { answer, err = a, e })
	return answer, err
}

// ended begins the next batch when one has ended.
func (c *Calls[Q, A]) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underway--
	c.next()
}

// late begins a batch beside those that are slow.
func (c *Calls[Q, A]) late() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next()
}

// next makes a batch of the calls that wait. It is called with mu held.
func (c *Calls[Q, A]) next() {
	if c.watch != nil {
		c.watch.Stop()
		c.watch = nil
	}
	var calls []*call[Q, A]
	size, taken := 0, 0
	for _, w := range c.waiting {
		if !w.gone {
			if n := c.Size(w.q); len(calls) > 0 && size+n > c.Most {
				break
			} else {
				size += n
			}
			calls = append(calls, w)
		}
		taken++
	}
	c.waiting = c.waiting[taken:]
	if len(c.waiting) == 0 {
		c.waiting = nil
	} else {
		c.watch = time.AfterFunc(c.Slow, c.late)
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &batch{callers: len(calls), cancel: cancel}
	for _, w := range calls {
		w.batch = b
	}
	c.underway++
	go func() {
		left := c.make(ctx, calls)
		cancel()
		c.ended()
		for _, w := range left { // the others have their answers by now
			c.Left(w.q, w.answer)
		}
	}()
}

// make makes the calls of a batch and hands out the answers. It returns those whose
// callers had gone.
func (c *Calls[Q, A]) make(ctx context.Context, calls []*call[Q, A]) (left []*call[Q, A]) {
	asked := make([]Q, len(calls))
	for i, w := range calls {
		asked[i] = w.q
	}
	c.Do(ctx, asked, func(i int, answer A, err error) {
		w := calls[i]
		c.mu.Lock()
		defer c.mu.Unlock()
		w.answer, w.err = answer, err
		close(w.done)
		if w.gone && err == nil && c.Left != nil {
			left = append(left, w)
		}
	})
	return left
}

// Apart makes each call of a batch by itself, at the same time: what a Do does when
// one of the calls may be the reason why the batch failed without an effect.
func Apart[Q, A any](ctx context.Context, batch []Q, answer func(int, A, error), alone func(context.Context, Q) (A, error)) {
	var all sync.WaitGroup
	for i, q := range batch {
		all.Go(func() {
			a, err := alone(ctx, q)
			answer(i, a, err)
		})
	}
	all.Wait()
}
