package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// slots tells whether the server has connections left for others. While it has not, the
// store holds few: none for wake-ups, one while it is busy, and none between the calls of
// an idle worker. So more processes than the server has connections take turns.
type slots struct {
	mu     sync.Mutex
	until  time.Time          // the end of the shortage, as far as is known
	giving bool               // the goroutine that gives connections back runs
	quiet  context.CancelFunc // ends the listening
}

const (
	fullFrom  = 95 // percent of the server's connections from which they are short
	shortFor  = 5 * time.Minute
	giveEvery = 250 * time.Millisecond
	fewCalls  = 2 // that an idle worker makes in that time
)

// short reports whether connections are short.
func (l *slots) short() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

// lookAtSlots takes how full the server is, in percent.
func (s *Store) lookAtSlots(full int) {
	if full < fullFrom || s.o.Pooler || s.closed.Err() != nil {
		return
	}
	l := &s.slots
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Now().Add(shortFor)
	if l.quiet != nil {
		l.quiet()
	}
	if s.own && !l.giving {
		l.giving = true
		s.work.Go(s.giveSlots)
	}
}

// giveSlots gives connections back until the shortage is over.
func (s *Store) giveSlots() {
	tick := time.NewTicker(giveEvery)
	defer tick.Stop()
	for before := s.pool.Stat().AcquireCount(); s.slots.short(); {
		select {
		case <-tick.C:
		case <-s.closed.Done():
			return
		}
		calls := s.pool.Stat().AcquireCount()
		keep := 0
		if calls-before > fewCalls {
			keep = 1
		}
		before = calls + giveBack(s.closed, s.pool, keep)
	}
	s.slots.mu.Lock()
	s.slots.giving = false
	s.slots.mu.Unlock()
}

// giveBack closes the unused connections of a pool that has more than keep.
func giveBack(ctx context.Context, pool *pgxpool.Pool, keep int) (looked int64) {
	left := int(pool.Stat().TotalConns())
	for _, c := range pool.AcquireAllIdle(ctx) {
		looked++
		if left <= keep {
			c.Release()
			continue
		}
		left--
		_ = c.Hijack().Close(ctx) // the server closes it in any case
	}
	return looked
}

// listening is a context for a connection that listens, unless connections are short.
func (s *Store) listening() (ctx context.Context, end context.CancelFunc, ok bool) {
	l := &s.slots
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) {
		return nil, nil, false
	}
	ctx, l.quiet = context.WithCancel(s.closed)
	return ctx, l.quiet, true
}
