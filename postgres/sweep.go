package postgres

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

const (
	expireEvery = time.Second      // how often claims look for leases that have ended
	pruneEvery  = 10 * time.Second // how often history is pruned and counts are merged; sooner when more is left to prune
	pruneIdle   = time.Minute      // how often while no count changes: history still grows old
	expireBatch = 100              // claims that one statement looks at
	pruneBatch  = 10_000           // rows that one statement deletes per queue and state; each reads past those deleted before
	pruneAll    = 5 * pruneBatch   // rows that it deletes in all
	pruneMost   = 200_000          // after how many rows a sweep deletes no more; they take far less than the time between sweeps
	mergeBatch  = 50_000           // rows that one statement merges
	mergeRounds = 20               // such statements in one sweep, as long as they halve the rows
	sweepRounds = 100              // full batches of claims in one sweep
)

// sweeper remembers when this process last swept.
type sweeper struct {
	mu              sync.Mutex
	sweptAt         time.Time
	expireCheckedAt time.Time // when this process last looked for ended leases
	prunedAt        time.Time
	mergedTo        int64 // the newest tally row after the last merge
	mendedTo        int64 // the last job that mend has looked at; 0: it begins with the first
	repairedAt      time.Time
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

// pause is the time from one retention to the next.
func (w *sweeper) pause(newest int64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if newest == w.mergedTo {
		return pruneIdle
	}
	return pruneEvery
}

func (s *Store) sweepIfDue(ctx context.Context, every time.Duration) error {
	if !s.sweeper.due(&s.sweeper.sweptAt, every) {
		return nil
	}
	_, err := s.Sweep(ctx)
	if errors.As(err, new(unreadableError)) { // it is left to sweeps: claims go on
		return nil
	}
	return err
}

// Sweep implements dibs.Store.
func (s *Store) Sweep(ctx context.Context) (dibs.Swept, error) {
	var out dibs.Swept
	if err := s.ready(ctx, "sweep"); err != nil {
		return out, err
	}
	s.sweeper.mu.Lock()
	s.sweeper.sweptAt = time.Now()
	s.sweeper.expireCheckedAt = s.sweeper.sweptAt
	s.sweeper.mu.Unlock()
	return out, wrap("sweep", s.sweep(ctx, &out))
}

func (s *Store) sweep(ctx context.Context, out *dibs.Swept) error {
	p, err := s.pending(ctx)
	if err == nil && p.readOnly { // said at once, not only when there is something to write
		err = &checks.ReadOnlyError{Why: checks.ReadOnlyServer}
	}
	if err == nil && p.leasesEnded {
		if err = s.expire(ctx, out); err == nil {
			p, err = s.pending(ctx) // expire has freed places in groups
		}
	}
	if err != nil {
		return err
	}
	s.noteSlots(p.percentUsed)
	// What fails for one queue keeps nothing else from being done.
	err = s.mindTicks(ctx, p.clockDue)
	if p.newQueues {
		err = cmp.Or(s.addNewQueues(ctx), err)
	}
	for _, q := range p.groups { // no claim may come soon that would admit them
		err = cmp.Or(s.admit(ctx, q), err)
		s.Wake(q)
	}
	if !s.sweeper.due(&s.sweeper.prunedAt, s.sweeper.pause(p.newestTally)) {
		return err
	}
	return cmp.Or(err, s.mergeTally(ctx, p.newestTally), s.retain(ctx, out), s.mendNext(ctx)) // all of them are made
}

// pending describes the work for a sweep.
type pending struct {
	clockDue
	newestTally int64    // id of the newest row of the tally
	percentUsed int      // percent of the server's connections that are in use
	readOnly    bool     // the server only reads
	groups      []string // queues with groups that have something to admit
}

func (s *Store) pending(ctx context.Context) (p pending, err error) {
	err = s.upkeep.run(ctx, s.clockStep(&p.clockDue), step{sql: s.sql.get("pending"), row: func(scan func(...any) error) error {
		return scan(&p.newestTally, &p.groups, &p.percentUsed, &p.readOnly)
	}})
	return p, err
}

// expire takes jobs whose lease ended away from their workers. It skips claims that another
// sweep has locked, so several processes can do it at once.
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
	known, err := s.known(ctx, []string{queue})
	if err != nil {
		return err
	}
	q := known[queue]
	q.Name, q.grouped = queue, true
	return s.upkeep.run(ctx, s.admitSteps(q, new(string))...)
}

// inTurn runs a statement of the sweep, unless another process is running it.
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

// retain deletes finished jobs that their queues no longer keep. If a sweep cannot delete
// all, the next one goes on at once: otherwise a busy queue's history would grow for ever.
func (s *Store) retain(ctx context.Context, out *dibs.Swept) error {
	for out.Pruned < pruneMost {
		n, periods := 0, 0
		busy, err := s.inTurn(ctx, "retention", step{sql: s.sql.get("retention"), args: []any{pruneBatch, pruneAll}, row: func(scan func(...any) error) error {
			return scan(&n, &periods)
		}})
		if err != nil {
			return err
		}
		out.Pruned += n
		out.Busy = out.Busy || busy
		if max(n, periods) < pruneBatch {
			return nil
		}
	}
	s.sweeper.mu.Lock()
	defer s.sweeper.mu.Unlock()
	s.sweeper.prunedAt = time.Time{}
	return nil
}

// mergeTally merges counts and moves what happened to the history, unless none has changed since this process last merged them.
func (s *Store) mergeTally(ctx context.Context, newest int64) error {
	s.sweeper.mu.Lock()
	merged := s.sweeper.mergedTo
	s.sweeper.mu.Unlock()
	if newest == merged {
		return nil
	}
	for range mergeRounds {
		var from, to int
		_, err := s.inTurn(ctx, "tally", step{sql: s.sql.get("merge_tally"), args: []any{mergeBatch, checks.HistoryMinutes}, row: func(scan func(...any) error) error {
			return scan(&from, &to)
		}})
		if err != nil {
			return err
		}
		if from < mergeBatch || to > from/2 { // all rows have been merged, or merging no longer halves them
			break
		}
	}
	p, err := s.pending(ctx)
	s.sweeper.mu.Lock()
	s.sweeper.mergedTo = p.newestTally
	s.sweeper.mu.Unlock()
	return err
}
