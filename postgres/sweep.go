package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

const (
	lostEvery   = time.Second      // how often claims look for leases that have ended
	pruneEvery  = 10 * time.Second // retention and merging of counts; sooner when retention had more to do
	pruneIdle   = time.Minute      // the same while nothing is counted: history still grows old
	expireBatch = 100              // claims looked at in one statement
	pruneBatch  = 10_000           // rows deleted per queue and state in one statement, which passes over those deleted before
	pruneRounds = 20               // such statements in one sweep: well under the time between sweeps
	mergeBatch  = 50_000           // rows merged in one statement
	mergeRounds = 20               // such statements in one sweep, while they make the table much smaller
	sweepRounds = 100              // full batches of claims in one sweep
)

// sweeper remembers when this process last swept.
type sweeper struct {
	mu     sync.Mutex
	last   time.Time
	looked time.Time // for leases that have ended
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

// pause is how long after retention it is due again.
func (w *sweeper) pause(newest int64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if newest == w.merged {
		return pruneIdle
	}
	return pruneEvery
}

func (s *Store) sweepIfDue(ctx context.Context, every time.Duration) error {
	if !s.sweeper.due(&s.sweeper.last, every) {
		return nil
	}
	_, err := s.Sweep(ctx)
	return err
}

// Sweep implements dibs.Store.
func (s *Store) Sweep(ctx context.Context) (dibs.Swept, error) {
	var out dibs.Swept
	if err := s.check(ctx, "sweep"); err != nil {
		return out, err
	}
	s.sweeper.mu.Lock()
	s.sweeper.last = time.Now()
	s.sweeper.looked = s.sweeper.last
	s.sweeper.mu.Unlock()
	return out, classify("sweep", s.sweep(ctx, &out))
}

func (s *Store) sweep(ctx context.Context, out *dibs.Swept) error {
	p, err := s.pending(ctx)
	if err == nil && p.lost {
		if err = s.expire(ctx, out); err == nil {
			p, err = s.pending(ctx) // groups have free places now
		}
	}
	if err != nil {
		return err
	}
	s.lookAtSlots(p.full)
	for _, q := range p.groups { // nobody claims from them just now
		if err := s.admit(ctx, q); err != nil {
			return err
		}
		s.Wake(q)
	}
	if !s.sweeper.due(&s.sweeper.pruned, s.sweeper.pause(p.newest)) {
		return nil
	}
	if err := s.retain(ctx, out); err != nil {
		return err
	}
	return s.mergeTally(ctx, p.newest)
}

// pending is what there is to sweep.
type pending struct {
	lost   bool     // leases have ended
	newest int64    // row of the tally
	full   int      // percent of the server's connections that are in use
	groups []string // queues with groups that have something to admit
}

func (s *Store) pending(ctx context.Context) (p pending, err error) {
	err = s.upkeep.run(ctx, step{sql: s.sql.get("pending"), row: func(scan func(...any) error) error {
		return scan(&p.lost, &p.newest, &p.groups, &p.full)
	}})
	return p, err
}

// lost asks whether leases have ended, unless lost is nil.
func (s *Store) lost(lost *bool) []step {
	if lost == nil {
		return nil
	}
	return []step{{sql: s.sql.get("pending"), row: func(scan func(...any) error) error {
		return scan(lost, new(int64), new([]string), new(int))
	}}}
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
			s.Wake(q)
		}
		if looked < expireBatch {
			return nil
		}
	}
	return nil
}

// admit lets the queue's grouped jobs take free places, in its own transaction.
func (s *Store) admit(ctx context.Context, queue string) error {
	return s.upkeep.run(ctx, s.admitSteps(queueRow{Queue: dibs.Queue{Name: queue}, grouped: true}, new(string))...)
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

// retain deletes what queues no longer keep. If there is more than a sweep can do, the
// next one goes on with it: otherwise a busy queue's history would grow for ever.
func (s *Store) retain(ctx context.Context, out *dibs.Swept) error {
	for range pruneRounds {
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
	s.sweeper.mu.Lock()
	defer s.sweeper.mu.Unlock()
	s.sweeper.pruned = time.Time{}
	return nil
}

// mergeTally merges counts unless nothing was counted since this process did.
func (s *Store) mergeTally(ctx context.Context, newest int64) error {
	s.sweeper.mu.Lock()
	merged := s.sweeper.merged
	s.sweeper.mu.Unlock()
	if newest == merged {
		return nil
	}
	for range mergeRounds {
		var from, to int
		_, err := s.inTurn(ctx, "tally", step{sql: s.sql.get("merge_tally"), args: []any{mergeBatch}, row: func(scan func(...any) error) error {
			return scan(&from, &to)
		}})
		if err != nil {
			return err
		}
		if from < mergeBatch || to > from/2 { // all rows have been merged, or few are left to each queue
			break
		}
	}
	p, err := s.pending(ctx)
	s.sweeper.mu.Lock()
	s.sweeper.merged = p.newest
	s.sweeper.mu.Unlock()
	return err
}
