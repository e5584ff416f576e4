package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// keyWait is how long an Enqueue waits for a transaction that has enqueued a job with its unique key and has not
// ended. Until it has, nobody knows whether there is such a job.
const keyWait = 5 * time.Second

// keyTurns has the calls of this process that enqueue one job with the same unique key wait for each other, without a
// connection: all connections would soon wait for one transaction.
type keyTurns struct {
	mu    sync.Mutex
	turns map[uniqueKey]*keyTurn
}

type keyTurn struct {
	free  chan struct{} // has an element while nobody has the turn
	calls int           // that have or await it
}

// take waits for the turn. The caller calls done after its transaction has ended.
func (t *keyTurns) take(ctx context.Context, key uniqueKey) (done func(), err error) {
	t.mu.Lock()
	turn := t.turns[key]
	if turn == nil {
		turn = &keyTurn{free: make(chan struct{}, 1)}
		turn.free <- struct{}{}
		if t.turns == nil {
			t.turns = map[uniqueKey]*keyTurn{}
		}
		t.turns[key] = turn
	}
	turn.calls++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if turn.calls--; turn.calls == 0 {
			delete(t.turns, key)
		}
	}
	timer := time.NewTimer(keyWait)
	defer timer.Stop()
	select {
	case <-turn.free:
		return func() { turn.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("%w: %s", dibs.ErrUnavailable, keyHeld)
	}
	leave()
	return nil, err
}

const keyHeld = "a transaction that has not ended has enqueued a job with the unique key"

// enqueueKeyed enqueues jobs of which some have unique keys, in a transaction of its own.
func (s *Store) enqueueKeyed(ctx context.Context, jobs []dibs.NewJob, enqueue func(pgx.Tx) error) error {
	if len(jobs) == 1 {
		done, err := s.keyTurns.take(ctx, uniqueKey{jobs[0].Queue, jobs[0].UniqueKey})
		if err != nil {
			return checks.Failed("enqueue", err)
		}
		defer done()
	}
	err := s.transact(ctx, "enqueue", enqueue)
	if isLocked(err) {
		err = fmt.Errorf("%s: %w", keyHeld, err)
	}
	return err
}

// brief is the connection of a transaction whose statements wait for a lock for keyWait at most.
type brief struct {
	conn
	limited bool
}

func (b *brief) run(ctx context.Context, list ...step) error {
	if !b.limited {
		b.limited = true
		list = append([]step{waitBriefly}, list...)
	}
	return b.conn.run(ctx, list...)
}
