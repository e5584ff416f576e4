package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

const (
	sweepEvery  = time.Second      // for Claim; workers call Sweep themselves
	pruneEvery  = 10 * time.Second // retention and merging of counts
	expireBatch = 100              // claims looked at in one statement
	pruneBatch  = 2000             // rows deleted per queue and state in one statement
	mergeBatch  = 50_000           // rows merged in one statement
	sweepRounds = 100              // full batches in one sweep
)

// sweeper remembers when this process last swept.
type sweeper struct {
	mu     sync.Mutex
	last   time.Time
	pruned time.Time
	merged int64 // the newest tally row after the last merge
}

func (w *sweeper) due(at *time.Time, every time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(*at) < every {
		return false
	}
	*at = time.Now()
	return true
}

func (s *Store) sweepIfDue(ctx context.Context) error {
	if !s.sweeper.due(&s.sweeper.last, sweepEvery) {
		return nil
	}
	_, err := s.Sweep(ctx)
	return err
}

// Sweep implements dibs.Store.
func (s *Store) Sweep(ctx context.Context) (dibs.Swept, error) {
	var out dibs.Swept
	if err := s.check("sweep"); err != nil {
		return out, err
	}
	s.sweeper.mu.Lock()
	s.sweeper.last = time.Now()
	s.sweeper.mu.Unlock()
	if err := s.expire(ctx, &out); err != nil {
		return out, classify("sweep", err)
	}
	if err := s.admitPending(ctx); err != nil {
		return out, classify("sweep", err)
	}
	if s.sweeper.due(&s.sweeper.pruned, pruneEvery) {
		if err := s.retain(ctx, &out); err != nil {
			return out, classify("sweep", err)
		}
		if err := s.mergeTally(ctx); err != nil {
			return out, classify("sweep", err)
		}
	}
	return out, nil
}

// expire takes away jobs whose lease ended. Claims are locked one by one, so
// several processes can be at it.
func (s *Store) expire(ctx context.Context, out *dibs.Swept) error {
	for range sweepRounds {
		looked, expired, queues := 0, 0, []string{}
		err := s.upkeep.run(
			ctx,
			step{sql: s.sql.get("turn_expire"), args: []any{expireBatch}, row: func(scan func(...any) error) error {
				return scan(&looked, new(string))
			}},
			step{
				sql:   s.sql.get("expire"),
				begin: func() { expired, queues = 0, nil },
				row: func(scan func(...any) error) error {
					var queue string
					var n int
					err := scan(&queue, &n)
					expired += n
					queues = append(queues, queue)
					return err
				},
			},
		)
		if err != nil {
			return err
		}
		out.Expired += expired
		for _, q := range queues {
			s.queues.lanesOf(q).lower()
			s.Wake(q)
		}
		if looked < expireBatch {
			return nil
		}
	}
	return nil
}

// admitPending admits in queues that nobody claims from just now.
func (s *Store) admitPending(ctx context.Context) error {
	var queues []string
	err := s.upkeep.run(ctx, step{sql: s.sql.get("pending"), row: func(scan func(...any) error) error {
		var q string
		err := scan(&q)
		queues = append(queues, q)
		return err
	}})
	if err != nil {
		return err
	}
	for _, q := range queues {
		if err := s.admit(ctx, q); err != nil {
			return err
		}
		s.Wake(q)
	}
	return nil
}

// admit lets the queue's grouped jobs take free places, in its own transaction.
func (s *Store) admit(ctx context.Context, queue string) error {
	return s.upkeep.run(ctx, s.admitSteps(queueRow{Queue: dibs.Queue{Name: queue}, grouped: true})...)
}

// inTurn runs a statement of the sweep if no other process is at it.
func (s *Store) inTurn(ctx context.Context, what string, st step) (busy bool, err error) {
	turn := step{
		sql:  s.sql.get("turn_sweep"),
		args: []any{lockKey(s.o.schema(), "sweep", what)},
		row: func(scan func(...any) error) error {
			var got string
			err := scan(&got)
			busy = got != "true"
			return err
		},
	}
	err = s.upkeep.run(ctx, turn, st)
	return busy, err
}

func (s *Store) retain(ctx context.Context, out *dibs.Swept) error {
	for range sweepRounds {
		n := 0
		busy, err := s.inTurn(ctx, "retention", step{sql: s.sql.get("retention"), args: []any{pruneBatch}, row: func(scan func(...any) error) error {
			return scan(&n)
		}})
		if err != nil {
			return err
		}
		out.Pruned += n
		out.Busy = out.Busy || busy
		if n < pruneBatch {
			return nil
		}
	}
	return nil
}

// mergeTally merges counts unless nothing was counted since this process did.
func (s *Store) mergeTally(ctx context.Context) error {
	newest, err := s.newestTally(ctx)
	s.sweeper.mu.Lock()
	merged := s.sweeper.merged
	s.sweeper.mu.Unlock()
	if err != nil || newest == merged {
		return err
	}
	if _, err := s.inTurn(ctx, "tally", step{sql: s.sql.get("merge_tally"), args: []any{mergeBatch}}); err != nil {
		return err
	}
	newest, err = s.newestTally(ctx)
	s.sweeper.mu.Lock()
	s.sweeper.merged = newest
	s.sweeper.mu.Unlock()
	return err
}

func (s *Store) newestTally(ctx context.Context) (id int64, err error) {
	err = s.upkeep.run(ctx, step{sql: s.sql.get("newest_tally"), row: func(scan func(...any) error) error {
		return scan(&id)
	}})
	return id, err
}
