// Package combine merges the calls of many goroutines into few: calls that come while a
// batch is under way wait, and are made together in the next batch. Under load the batches
// grow by themselves; a call that meets no other is made at once, by its caller. This is
// group commit, as databases do it for their logs (DeWitt et al., Implementation Techniques
// for Main Memory Database Systems, 1984).
package combine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Calls merges calls with a request Q and an answer A. Its functions may be called from
// many goroutines at once.
type Calls[Q, A any] struct {
	// Do makes the calls of a batch together. It answers each call once, by its place in the batch. The answer
	// ErrApart has Alone make that call. The context ends when no caller waits any more.
	Do func(ctx context.Context, batch []Q, answer func(i int, a A, err error))
	// Alone makes one call by itself. If it is nil, Do makes batches of one, too.
	Alone func(ctx context.Context, q Q) (A, error)
	// Left gets each answer whose caller no longer waits. If it is nil, such answers are dropped.
	Left func(Q, A)
	// Size is how much of MaxSize a call takes. A batch of one call may be larger.
	Size    func(Q) int
	MaxSize int
	// Slow is how long calls wait for the batch under way. After that they get a batch beside
	// it.
	Slow time.Duration
	// Made gets the number of calls in each batch; it may be nil.
	Made func(calls int)

	mu        sync.Mutex
	waiting   []*call[Q, A]
	underway  int
	slowTimer *time.Timer // calls startLate for the first waiting call; nil if no call waits
}

type call[Q, A any] struct {
	q          Q
	answer     A
	err        error
	done       chan struct{}
	batch      *batch // nil while the call waits for a batch
	callerGone bool   // the caller no longer waits
}

// batch is shared by the calls that are made together.
type batch struct {
	callers int // how many callers still wait for their answers
	cancel  context.CancelFunc
}

// Call makes the call q. If ctx ends first, it is not known whether the call took effect.
func (c *Calls[Q, A]) Call(ctx context.Context, q Q) (A, error) {
	c.mu.Lock()
	if c.underway == 0 {
		c.underway++
		c.mu.Unlock()
		defer c.ended()
		return c.callAlone(ctx, q)
	}
	w := &call[Q, A]{q: q, done: make(chan struct{})}
	c.waiting = append(c.waiting, w)
	if c.slowTimer == nil {
		c.slowTimer = time.AfterFunc(c.Slow, c.startLate)
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
	case <-w.done: // the answer came just as the context ended
		return w.answer, w.err
	default:
	}
	w.callerGone = true
	if w.batch != nil {
		if w.batch.callers--; w.batch.callers == 0 {
			w.batch.cancel()
		}
	}
	var none A
	return none, ctx.Err()
}

func (c *Calls[Q, A]) callAlone(ctx context.Context, q Q) (answer A, err error) {
	c.Make(ctx, []Q{q}, func(_ int, a A, e error) { answer, err = a, e })
	return answer, err
}

// ended begins the next batch after one has ended.
func (c *Calls[Q, A]) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underway--
	c.startBatch()
}

// startLate begins a batch although others, which are slow, have not ended.
func (c *Calls[Q, A]) startLate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startBatch()
}

// startBatch makes a batch of the waiting calls. mu must be held.
func (c *Calls[Q, A]) startBatch() {
	if c.slowTimer != nil {
		c.slowTimer.Stop()
		c.slowTimer = nil
	}
	var calls []*call[Q, A]
	size, taken := 0, 0
	for _, w := range c.waiting {
		if !w.callerGone {
			if n := c.Size(w.q); len(calls) > 0 && size+n > c.MaxSize {
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
		c.slowTimer = time.AfterFunc(c.Slow, c.startLate)
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
		left := c.makeCalls(ctx, calls)
		cancel()
		c.ended()
		for _, w := range left { // the other callers have their answers
			c.Left(w.q, w.answer)
		}
	}()
}

// makeCalls makes the calls of a batch and hands out the answers. It returns the calls whose
// callers no longer wait.
func (c *Calls[Q, A]) makeCalls(ctx context.Context, calls []*call[Q, A]) (left []*call[Q, A]) {
	asked := make([]Q, len(calls))
	for i, w := range calls {
		asked[i] = w.q
	}
	c.Make(ctx, asked, func(i int, answer A, err error) {
		w := calls[i]
		c.mu.Lock()
		defer c.mu.Unlock()
		w.answer, w.err = answer, err
		close(w.done)
		if w.callerGone && err == nil && c.Left != nil {
			left = append(left, w)
		}
	})
	return left
}

// ErrApart is the answer to a call that was not made in its batch, and is to be made by itself: as when the batch
// failed without effect, and one of its calls may be the reason.
var ErrApart = errors.New("the call is to be made by itself")

// Make makes the calls of a batch, and then those that are to be made by themselves, all at the same time.
func (c *Calls[Q, A]) Make(ctx context.Context, batch []Q, answer func(i int, a A, err error)) {
	if c.Made != nil {
		c.Made(len(batch))
	}
	var apart []int
	if c.Alone != nil && len(batch) == 1 {
		apart = []int{0}
	} else {
		c.Do(ctx, batch, func(i int, a A, err error) {
			if errors.Is(err, ErrApart) {
				apart = append(apart, i)
				return
			}
			answer(i, a, err)
		})
	}
	var all sync.WaitGroup
	for _, i := range apart {
		all.Go(func() {
			a, err := c.Alone(ctx, batch[i])
			answer(i, a, err)
		})
	}
	all.Wait()
}
