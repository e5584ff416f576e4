package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// slots knows whether the server is short of connections. While it is, the store keeps few:
// none for wakeups, one while it is busy, and none between the calls of an idle worker. So
// processes take turns, even if there are more of them than the server has connections.
type slots struct {
	mu            sync.Mutex
	shortUntil    time.Time          // the expected end of the shortage
	giveSlotsRuns bool               // the goroutine of giveSlots runs
	stopListening context.CancelFunc // ends the context of listenContext
}

const (
	shortFrom = 95 // connections are short once this percentage is in use
	shortFor  = 5 * time.Minute
	giveEvery = 250 * time.Millisecond
	idleCalls = 2 // an idle worker makes at most this many calls in giveEvery
)

// areShort reports whether connections are short.
func (l *slots) areShort() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.shortUntil)
}

// noteSlots records that full percent of the server's connections are in use, and begins to save connections if that is
// too much.
func (s *Store) noteSlots(full int) {
	if full < shortFrom || s.o.Pooler || s.closed.Err() != nil {
		return
	}
	l := &s.slots
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shortUntil = time.Now().Add(shortFor)
	if l.stopListening != nil {
		l.stopListening()
	}
	if s.ownsPool && !l.giveSlotsRuns {
		l.giveSlotsRuns = true
		s.goroutines.Go(s.giveSlots)
	}
}

// giveSlots closes unused connections until the shortage is over.
func (s *Store) giveSlots() {
	tick := time.NewTicker(giveEvery)
	defer tick.Stop()
	for before := s.pool.Stat().AcquireCount(); s.slots.areShort(); {
		select {
		case <-tick.C:
		case <-s.closed.Done():
			return
		}
		calls := s.pool.Stat().AcquireCount()
		keep := 0
		if calls-before > idleCalls {
			keep = 1
		}
		before = calls + giveBack(s.closed, s.pool, keep)
	}
	s.slots.mu.Lock()
	s.slots.giveSlotsRuns = false
	s.slots.mu.Unlock()
}

// giveBack closes unused connections of a pool until at most keep are left. It returns how many unused ones there were.
func giveBack(ctx context.Context, pool *pgxpool.Pool, keep int) (looked int64) {
	left := int(pool.Stat().TotalConns())
	for _, c := range pool.AcquireAllIdle(ctx) {
		looked++
		if left <= keep {
			c.Release()
			continue
		}
		left--
		_ = c.Hijack().Close(ctx) // an error is ignored: the server ends a broken connection by itself
	}
	return looked
}

// listenContext is the context of the connection that listens; ok is false while connections are short.
func (s *Store) listenContext() (ctx context.Context, end context.CancelFunc, ok bool) {
	l := &s.slots
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.shortUntil) {
		return nil, nil, false
	}
	ctx, l.stopListening = context.WithCancel(s.closed)
	return ctx, l.stopListening, true
}
