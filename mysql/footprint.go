package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// Locks claims up to n jobs of a queue in a transaction that it rolls back, and reports
// what that locked and what it made other calls wait for. Before that, groups get their free places, as before each claim.
// Meanwhile workers cannot claim these jobs. It needs three connections and no privilege. The command
// dibs locks shows it. A queue that does not exist gives ErrUnknownQueue.
func (s *Store) Locks(ctx context.Context, queue string, n int) (f admin.Footprint, err error) {
	r := dibs.ClaimRequest{Queue: queue, Worker: "dibs locks", N: n}
	if err := checks.Claim(&r); err != nil {
		return f, err
	}
	if err := s.ready(ctx); err != nil {
		return f, checks.Failed("locks", err)
	}
	queues, err := s.Queues(ctx, r.Queue)
	if err == nil && len(queues) == 0 {
		err = checks.Failed("locks", fmt.Errorf("%w %q", dibs.ErrUnknownQueue, r.Queue))
	}
	if err == nil {
		f.Queue, f.Paused = r.Queue, queues[0].Paused
		err = s.rows.Admit(ctx, r.Queue)
	}
	if err != nil || f.Paused {
		return f, err
	}
	err = s.tried(ctx, func(t rowstore.Trial) error {
		start := time.Now()
		jobs, _, err := t.Claim(r)
		f.Claimed, f.Took = len(jobs), time.Since(start)
		if err != nil || f.Claimed == 0 {
			return err
		}
		p := lockProbe{s: s, r: r, q: queues[0]}
		for _, j := range jobs {
			p.jobs, p.group = append(p.jobs, j.ID), cmp.Or(p.group, j.Group)
		}
		if f.Locks, err = p.held(ctx); err == nil {
			f.Others, err = p.others(ctx)
		}
		return err
	})
	return f, checks.Failed("locks", classify(s.failed(ctx, err)))
}

// tried runs f in a transaction that it rolls back. In it a statement waits for a lock for a second, and it may do nothing for
// long, as what others do is tried meanwhile.
func (s *Store) tried(ctx context.Context, f func(rowstore.Trial) error) error {
	c, err := s.any().pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close() // an error is ignored: the transaction has ended
	if _, err := c.ExecContext(ctx, "set innodb_lock_wait_timeout = 1, idle_transaction_timeout = 0"); err != nil {
		return err
	}
	defer func() {
		whole, stop := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
		defer stop()
		_, _ = c.ExecContext(whole, fmt.Sprintf("set innodb_lock_wait_timeout = %d, idle_transaction_timeout = %d", lockWait, idleWithin)) // if it fails, the connection is lost
	}()
	if _, err := c.ExecContext(ctx, "start transaction"); err != nil {
		return err
	}
	defer rollback(ctx, c)
	return f(rowstore.Trial{Session: rowstore.NewSession(ctx, conn{c, s.joined()}, &s.sql.Dialect)})
}

// lockProbe examines a claim in an open transaction.
type lockProbe struct {
	s     *Store
	r     dibs.ClaimRequest
	q     dibs.Queue
	jobs  []int64 // the claimed ones
	group string  // the group of one of them; empty: none has a group
}

// lockMeans says what a lock of a row stops, by the row's table and whether the lock is shared.
var lockMeans = map[string]string{
	"job":         "skipped by claims; changes wait",
	"turn":        "claims under a limit or a rate skip it",
	"turn shared": "shared by claims; a new limit takes effect after them",
	"rate":        "counted by the next claim",
}

// held lists the rows that the claim has locked.
func (p lockProbe) held(ctx context.Context) (locks []admin.Lock, err error) {
	ids, err := json.Marshal(p.jobs)
	if err != nil {
		return nil, err
	}
	c, err := p.s.any().pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close() // an error is ignored: the transaction has ended
	if _, err := c.ExecContext(ctx, "start transaction"); err != nil {
		return nil, err
	}
	defer rollback(ctx, c)
	err = rowstore.Each(ctx, conn{c, p.s.joined()}, p.s.sql.Statements.Get("locks_rows"), func(rows *sql.Rows) error {
		var table string
		var all, shared, alone int
		err := rows.Scan(&table, &all, &shared, &alone)
		on := "rows of " + p.s.sql.prefix + table
		if n := all - shared; n > 0 {
			locks = append(locks, admin.Lock{On: on, Mode: "X", Rows: n, Means: lockMeans[table]})
		}
		if n := shared - alone; n > 0 {
			locks = append(locks, admin.Lock{On: on, Mode: "S", Rows: n, Means: lockMeans[table+" shared"]})
		}
		return err
	}, p.r.Queue, string(ids))
	locks = append(locks, admin.Lock{On: "its new rows in " + p.s.sql.prefix + "claim and " + p.s.sql.prefix + "tally", Mode: "X", Means: "nobody else needs them yet"})
	return locks, err
}

// others makes the calls that other processes may make while the claim's transaction is open.
func (p lockProbe) others(ctx context.Context) (all []admin.Other, err error) {
	add := func(o admin.Other, what string, err error) error {
		o.What = what
		all = append(all, o)
		return err
	}
	for _, try := range []struct {
		what string
		do   func(rowstore.Trial) (note string, err error)
	}{
		{"another claim", p.claimMore},
		{"enqueue into the queue", func(t rowstore.Trial) (string, error) { return "", t.Enqueue(p.job("")) }},
		{"enqueue into the same group", func(t rowstore.Trial) (string, error) { return "", t.Enqueue(p.job(p.group)) }},
		{"extend another job", p.withAnother(ctx, func(t rowstore.Trial, l dibs.Lease) error { return t.Extend(l, p.q.Lease) })},
		{"finish another job", p.withAnother(ctx, func(t rowstore.Trial, l dibs.Lease) error { return t.Finish(l.Complete(nil)) })},
		{"a change of settings", func(t rowstore.Trial) (string, error) { return "", t.SetQueue(p.r.Queue) }},
	} {
		if try.what == "enqueue into the same group" && p.group == "" {
			continue
		}
		var o admin.Other
		err := p.s.tried(ctx, func(t rowstore.Trial) (err error) {
			start := time.Now()
			o.Note, err = try.do(t)
			o.Took, o.Untried = time.Since(start), o.Note == noOther
			switch {
			case waitedTooLong(err):
				o.WaitsFor, err = "a row that the claim or another transaction has locked", nil
			case rowstore.Held(err):
				o.WaitsFor, err = "a turn, key or job that the claim or another transaction holds", nil
			}
			return err
		})
		if err := add(o, try.what, err); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	_, err = p.s.Stats(ctx)
	if err := add(admin.Other{Took: time.Since(start)}, "stats", err); err != nil {
		return nil, err
	}
	start = time.Now()
	_, err = p.s.List(ctx, admin.Filter{Queue: p.r.Queue})
	return all, add(admin.Other{Took: time.Since(start)}, "list", err)
}

func (p lockProbe) job(group string) dibs.NewJob {
	return dibs.NewJob{Queue: p.r.Queue, Kind: "dibs locks", Group: group}
}

func (p lockProbe) claimMore(t rowstore.Trial) (note string, err error) {
	jobs, missed, err := t.Claim(p.r)
	switch {
	case missed:
		note = "gets nothing: claims under a limit or a rate take turns"
	case len(jobs) > 0:
		note = "gets other jobs"
	default:
		note = "finds no other job due"
	}
	return note, err
}

// noOther is the note of a call for which no other job was found.
const noOther = "no other job"

// withAnother calls do with the lease of a running job of another worker, or of one that it claims for this if there is none.
func (p lockProbe) withAnother(ctx context.Context, do func(rowstore.Trial, dibs.Lease) error) func(rowstore.Trial) (string, error) {
	return func(t rowstore.Trial) (string, error) {
		page, err := p.s.List(ctx, admin.Filter{Queue: p.r.Queue, State: dibs.Running, Limit: 100})
		if err != nil {
			return noOther, err
		}
		if len(page.Jobs) > 0 {
			last := slices.MaxFunc(page.Jobs, func(a, b *dibs.RawJob) int { return a.LeaseUntil.Compare(b.LeaseUntil) })
			if err := do(t, last.Lease()); !errors.Is(err, dibs.ErrLeaseLost) {
				return "", err
			}
		}
		r := p.r
		r.N = 1
		jobs, _, err := t.Claim(r)
		if err != nil || len(jobs) == 0 {
			return noOther, err
		}
		return "", do(t, jobs[0].Lease())
	}
}
