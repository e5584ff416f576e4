package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/footprint"
)

// others makes the calls that other processes may make while the claim's transaction is
// open, each in a transaction that it rolls back.
func (l lockProbe) others(ctx context.Context) ([]footprint.Other, error) {
	ours := []dibs.NewJob{{Queue: l.q.Name, Kind: "dibs locks"}}
	grouped := []dibs.NewJob{{Queue: l.q.Name, Kind: "dibs locks", Group: l.group}}
	tries := []struct {
		what string
		do   func(*Store) (note string, err error)
	}{
		{"another claim", func(s *Store) (string, error) {
			jobs, err := s.claimUnderSettings(ctx, l.r, claimer{conn: s.db})
			return l.noteOfClaim(len(jobs)), err
		}},
		{"enqueue into the queue", func(s *Store) (string, error) {
			_, _, err := s.enqueue(ctx, ours, s.db)
			return "", err
		}},
		{"enqueue into the same group", func(s *Store) (string, error) {
			_, _, err := s.enqueue(ctx, grouped, s.db)
			return "", err
		}},
		{"extend another job", l.withAnother(ctx, func(s *Store, j *dibs.RawJob) error {
			e, err := s.Extend(ctx, []dibs.Lease{j.Lease()}, l.q.Lease)
			if err == nil && len(e.Lost) > 0 {
				return dibs.ErrLeaseLost
			}
			return err
		})},
		{"finish another job", l.withAnother(ctx, func(s *Store, j *dibs.RawJob) error {
			return s.finish(ctx, []dibs.Outcome{j.Lease().Complete(nil)}, finisher{conn: s.db})
		})},
		{"stats", func(s *Store) (string, error) {
			_, err := s.Stats(ctx)
			return "", err
		}},
		{"list", func(s *Store) (string, error) {
			_, err := s.List(ctx, dibs.Filter{Queue: l.q.Name})
			return "", err
		}},
		{"a change of settings", func(s *Store) (string, error) {
			_, err := s.SetQueue(ctx, l.q.Name, dibs.QueueChange{Paused: &l.q.Paused})
			return "", err
		}},
	}
	var all []footprint.Other
	for _, try := range tries {
		if try.what == "enqueue into the same group" && l.group == "" {
			continue
		}
		o, err := l.try(ctx, try.do)
		if err != nil {
			return nil, err
		}
		o.What = try.what
		all = append(all, o)
	}
	return all, nil
}

func (l lockProbe) noteOfClaim(n int) string {
	switch {
	case n > 0:
		return "gets other jobs"
	case l.q.Concurrency > 0:
		return "gets nothing: claims under a limit take turns"
	}
	return "finds no other job due"
}

// noOther is the note of a call that found no job to try it on.
const noOther = "no other job"

// withAnother calls do with a running job of other workers, or else with one that it
// claims for that. A running job whose lease has ended is no use, so it takes the latest lease.
func (l lockProbe) withAnother(ctx context.Context, do func(*Store, *dibs.RawJob) error) func(*Store) (string, error) {
	return func(s *Store) (string, error) {
		page, err := s.List(ctx, dibs.Filter{Queue: l.q.Name, State: dibs.Running, Limit: 100})
		if err != nil {
			return noOther, err
		}
		if len(page.Jobs) > 0 {
			last := slices.MaxFunc(page.Jobs, func(a, b *dibs.RawJob) int { return a.LeaseUntil.Compare(b.LeaseUntil) })
			if err := do(s, last); !errors.Is(err, dibs.ErrLeaseLost) {
				return "", err
			}
		}
		r := l.r
		r.N = 1
		jobs, err := s.claimUnderSettings(ctx, r, claimer{conn: s.db})
		if err != nil || len(jobs) == 0 {
			return noOther, err
		}
		return "", do(s, jobs[0])
	}
}

// awaitedEvery is how often try asks the server whether the call waits for the claim.
const awaitedEvery = 100 * time.Millisecond

// try measures one call, and cancels it once it is seen to wait for the claim.
func (l lockProbe) try(ctx context.Context, do func(*Store) (string, error)) (o footprint.Other, err error) {
	t, err := l.s.beginOn(ctx, l.s.sidePool)
	if err != nil {
		return o, err
	}
	defer t.Rollback(context.WithoutCancel(ctx))
	s := l.s.within(t)
	if _, _, err := s.queue(ctx, l.q.Name); err != nil { // other processes know the settings already
		return o, err
	}
	done := make(chan error, 1)
	start := time.Now()
	go func() {
		note, err := do(s)
		o.Note, o.Took, o.Untried = note, time.Since(start), note == noOther
		done <- err
	}()
	waits := ""
	for {
		select {
		case err := <-done:
			if o.WaitsFor = waits; waits != "" {
				err = nil // it was cancelled
			}
			return o, err
		case <-time.After(awaitedEvery):
			if waits == "" {
				if waits, err = l.awaited(ctx, t); err != nil {
					return o, errors.Join(err, <-done)
				}
			}
		}
	}
}

// awaited returns the claim's lock for which t waits, if any, and then cancels t's statement.
func (l lockProbe) awaited(ctx context.Context, t pgx.Tx) (what string, err error) {
	pid := int32(t.Conn().PgConn().PID())
	err = l.s.upkeep.run(ctx, step{sql: l.s.sql.get("locks_awaited"), args: []any{pid, int32(l.pid)}, row: func(scan func(...any) error) error {
		var kind, table string
		var key int64
		err := scan(&kind, &table, &key)
		switch kind {
		case "advisory":
			what = l.advisory(key)
		case "relation":
			what = "the table " + table
		default:
			what = "a row of " + table
		}
		return err
	}})
	if err != nil || what == "" {
		return "", err
	}
	return what, l.s.upkeep.run(ctx, step{sql: "select pg_catalog.pg_cancel_backend($1)", args: []any{pid}})
}
