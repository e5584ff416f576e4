package rowstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

const (
	// maxExpire is how many claims one transaction of a sweep looks at, and maxPrune how many
	// jobs it deletes per queue and state.
	maxExpire = 200
	maxPrune  = 1_000
	// sweepFor is how long one Sweep goes on ending leases and pruning.
	sweepFor = 200 * time.Millisecond
	// windowMinutes is how far back statistics reach.
	windowMinutes = reads.WindowMinutes
)

var finalStates = []dibs.State{dibs.Completed, dibs.Dead, dibs.Cancelled}

// Sweep does what is due by the clock: see dibs.Store.
func (s *Store) Sweep(ctx context.Context) (dibs.Swept, error) {
	var sum dibs.Swept
	ctx = s.nearUpkeep(ctx)
	if _, err := s.takeInbox(ctx, 0); err != nil {
		return sum, err
	}
	for began := time.Now(); ; {
		var w dibs.Swept
		var asked []string
		ticks, left := false, false
		err := s.write(ctx, "sweep", func(tx *Session) (err error) {
			if w, err = tx.sweep(); err == nil {
				asked, err = tx.askedQueues()
			}
			ticks, left = tx.moreTicks, tx.flows.left
			return err
		})
		for _, queue := range asked {
			if err == nil {
				_, err = s.admitAsked(ctx, queue)
			}
		}
		sum.Expired += w.Expired
		sum.Pruned += w.Pruned
		more := w.Pruned >= maxPrune || w.Expired >= maxExpire || ticks || left
		if err != nil || !more || time.Since(began) > sweepFor {
			return sum, err
		}
	}
}

// sweepIfDue sweeps as a part of a claim, at most once a second.
func (s *Session) sweepIfDue() error {
	if s.upkeep == nil {
		return nil
	}
	if time.Since(s.upkeep.LastSweep) < sweepEvery {
		return nil
	}
	_, err := s.sweep()
	return err
}

func (s *Session) sweep() (w dibs.Swept, err error) {
	if s.upkeep != nil {
		s.upkeep.LastSweep = time.Now()
	}
	if w.Expired, err = s.expire(); err != nil {
		return w, err
	}
	if err := s.tick(); err != nil {
		return w, err
	}
	if err := s.settleList(); err != nil {
		return w, err
	}
	if got, err := s.turn(TurnSweep, "", false); err != nil || !got {
		return w, err
	}
	now := s.now()
	if w.Pruned, err = s.sweepQueues(now); err != nil {
		return w, err
	}
	for _, drop := range []string{"drop_windows", "drop_rates"} {
		s.later(drop, now, maxPrune)
	}
	if err := s.mergeTally(now); err != nil {
		return w, err
	}
	return w, s.mendNext(now)
}

// sweepQueues moves jobs that have become due to their groups, and prunes finished jobs.
func (s *Session) sweepQueues(now int64) (pruned int, err error) {
	type work struct {
		queue string
		state dibs.State // empty: jobs have become due for their groups
		upTo  int64
	}
	var due []work
	err = s.each("sweep_due", func(rows *sql.Rows) error {
		var d work
		err := rows.Scan(&d.queue, reads.Text(&d.state), &d.upTo)
		due = append(due, d)
		return err
	}, now)
	if err != nil {
		return 0, err
	}
	for _, d := range due {
		if d.state == "" {
			err = s.joinGroups(d.queue)
		} else {
			var n int
			n, err = s.prune(d.queue, d.state, d.upTo)
			pruned += n
		}
		if err != nil {
			return pruned, err
		}
	}
	return pruned, nil
}

// mergeTally merges the counts of minutes that statistics no longer show, and moves what
// happened in these minutes to the history.
func (s *Session) mergeTally(now int64) error {
	first, kept := now/minute-windowMinutes, now/minute-int64(checks.HistoryMinutes)
	if s.concurrent() {
		return s.foldTally(first, kept)
	}
	if n, err := s.exec("merge_tally", first); err != nil || n == 0 {
		return err
	}
	s.later("add_history", first, kept)
	s.later("drop_tally", first)
	s.later("drop_history", kept)
	return nil
}

// maxFold is how many rows of counts a sweep adds up at most; each transaction leaves one row for each queue that it
// has changed.
const maxFold = 10_000

// foldTally is mergeTally for databases on which each transaction appends its counts, so that no transaction waits for
// another. It also adds up the rows of minutes that statistics show. It takes rows by their ids: rows that others
// append meanwhile stay for the next sweep.
func (s *Session) foldTally(first, kept int64) error {
	ids, err := s.ids("tally_rows", first, maxFold)
	if err != nil || len(ids) == 0 {
		return err
	}
	list := jsonIDs(ids)
	s.later("fold_tally", list, first)
	s.later("fold_history", list, first, kept)
	s.later("drop_folded", list)
	s.later("drop_history", kept)
	return nil
}

// prune deletes up to maxPrune jobs of one state that finished at upTo or before.
func (s *Session) prune(queue string, state dibs.State, upTo int64) (int, error) {
	s.later("prune_steps", queue, string(state), upTo, maxPrune)
	n, err := s.exec("prune", queue, string(state), upTo, maxPrune)
	if n > 0 {
		s.count(queue, func(t *tally) { t.ended(state, -n) })
	}
	return int(n), err
}

// claimRow is a row in the log of claims, as check_later.sql writes it.
type claimRow struct {
	Token dibs.Token `json:"token"`
	At    int64      `json:"at"` // when the sweep looks at the claim again
	ids   []int64
}

func (s *Session) claimRows(statement string, args ...any) ([]claimRow, error) {
	var all []claimRow
	err := s.each(statement, func(rows *sql.Rows) error {
		var c claimRow
		var ids string
		if err := rows.Scan(reads.Token(&c.Token), reads.Text(&ids)); err != nil {
			return err
		}
		_ = json.Unmarshal([]byte(ids), &c.ids) // ids that SQL by hand has broken name no job
		all = append(all, c)
		return nil
	}, args...)
	return all, err
}

// expire takes jobs whose lease ended away from their workers.
func (s *Session) expire() (int, error) {
	now := s.now()
	expired := 0
	for began := time.Now(); ; {
		claims, err := s.claimRows("due_claims", now, maxExpire)
		if err != nil {
			return expired, err
		}
		due := len(claims)
		for len(claims) > 0 {
			n, jobs := 0, 0
			for ; n == 0 || n < len(claims) && jobs+len(claims[n].ids) <= maxPrune; n++ { // take claims as long as their jobs fit into memory
				jobs += len(claims[n].ids)
			}
			some, err := s.expireClaims(claims[:n], now)
			if err != nil {
				return expired, err
			}
			expired += some
			claims = claims[n:]
		}
		// If these claims had no jobs that ended, go on with the next ones, which costs next to nothing.
		if due < maxExpire || expired >= maxExpire || time.Since(began) > sweepFor {
			return expired, s.settle()
		}
	}
}

// expireClaims ends the leases of these claims that have ended, and plans when to look at the claims again: when their
// next leases end.
func (s *Session) expireClaims(claims []claimRow, now int64) (int, error) {
	var ids []int64
	for _, c := range claims {
		ids = append(ids, c.ids...)
	}
	jobs, err := s.holding(ids)
	if err != nil {
		return 0, err
	}
	passedOver, err := s.passedOver(claims, jobs)
	if err != nil {
		return 0, err
	}
	expired := 0
	var all fates
	var over []dibs.Token // tokens of claims that have no lease any more
	var later []claimRow
	for _, c := range claims {
		if s.ownTokens[c.Token] {
			continue
		}
		c.At = now + micro(claimCheckEvery)
		live := passedOver[c.Token]
		if live {
			c.At = now + micro(lockedCheckEvery)
		}
		for _, id := range c.ids {
			j := jobs[id]
			if j == nil || j.token != c.Token {
				continue
			}
			if j.leaseUntil > now {
				c.At, live = min(c.At, j.leaseUntil), true
				continue
			}
			q, err := s.ensureQueue(j.queue) // makes the queue again if somebody has deleted it
			if err != nil {
				return expired, err
			}
			s.apply(j, expiry(j, now), q, &all)
			delete(jobs, id) // SQL by hand may have named the job twice
			expired++
		}
		if live {
			later = append(later, c)
		} else {
			over = append(over, c.Token)
		}
	}
	s.writeFates(&all, now)
	laterRows(s, "check_later", later)
	laterRows(s, "forget_claim", over)
	return expired, nil
}

// expiry is the fate of a job whose worker let the lease end: it keeps its place and
// has no backoff.
func expiry(j *heldJob, now int64) fate {
	f := fate{ID: j.id, State: j.after(dibs.Outcome{Ending: dibs.EndRetry}), decidedAt: now, RunAt: j.runAt}
	f.failed = f.State != dibs.Cancelled
	f.Errors = j.failure(now, "lease expired")
	return f
}
