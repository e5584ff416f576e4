package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/interleave"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/rowstore"
	"github.com/dibs-queue/dibs/sqlite"
)

// TestInterleavings runs small programs in every order of their calls, or in the
// simplest; with DIBS_SOAK=1 in all. There is one write transaction at a time, so a
// call is one step, and so is each of an open transaction.
func TestInterleavings(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	interleave.Run(t, interleavings(), func(tb testing.TB) interleave.Bench { return newStage(tb, false, nil) })
}

func interleavings() interleave.Options {
	if os.Getenv("DIBS_SOAK") != "" {
		return interleave.Options{}
	}
	return interleave.Options{Most: 100, Seed: 1}
}

// stage is a file that two stores share as two processes would.
type stage struct {
	stores     [2]process
	db         *sql.DB
	concurrent bool
	settles    bool // calls settle what they have left to later transactions
}

// process is a store that sweeps only when Sweep is called.
type process struct{ *sqlite.Store }

func (p process) Sweep(ctx context.Context) (dibs.Swept, error) {
	swept, err := p.Store.Sweep(ctx)
	return swept, errors.Join(err, p.StopSweeping(ctx))
}

// newStage makes a file and its stores, in the concurrent mode or not. If it is not nil, damage changes their statements.
func newStage(tb testing.TB, concurrent bool, damage func(name, text string) string) *stage {
	tb.Helper()
	s := &stage{concurrent: concurrent}
	turns := &sqlite.Turns{Refuse: func(turn rowstore.Turn) bool { return turn == rowstore.TurnFlows && !s.settles }}
	path := filepath.Join(tb.TempDir(), "jobs.db")
	for i := range s.stores {
		store, err := sqlite.Open(tb.Context(), path, sqlite.Options{Relaxed: true})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := store.Close(); err != nil {
				tb.Error(err)
			}
		})
		if concurrent {
			if err := store.Concurrent(tb.Context(), turns); err != nil {
				tb.Fatal(err)
			}
		}
		store.SteadyClock()
		if damage != nil {
			store.Rewrite(damage)
		}
		s.stores[i] = process{store}
		if err := s.stores[i].StopSweeping(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
	s.db = s.stores[0].DB()
	return s
}

// Reset implements interleave.Bench.
func (s *stage) Reset(ctx context.Context) error {
	s.settles = false
	const all = "delete from dibs_job; delete from dibs_finished; delete from dibs_claim; delete from dibs_tally; delete from dibs_history; delete from dibs_group_limit; delete from dibs_queue; delete from dibs_edge; delete from dibs_ended_list; "
	if _, err := s.db.ExecContext(ctx, all+fmt.Sprintf("update dibs_clock set now = %d", epoch.UnixMicro())); err != nil {
		return err
	}
	if s.concurrent {
		if _, err := s.db.ExecContext(ctx, "delete from dibs_wake; delete from dibs_start"); err != nil {
			return err
		}
	}
	_, err := s.stores[0].ChangeQueue(ctx, interleave.Queue, dibs.QueueChange{}.Apply)
	return err
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Start implements interleave.Bench.
func (*stage) Start(context.Context, func(int, interleave.Step) bool) error { return nil }

// Finish implements interleave.Bench.
func (s *stage) Finish() { s.settles = true }

// Settles implements interleave.Bench.
func (s *stage) Settles() bool { return s.concurrent }

// Settle implements interleave.Bench.
func (s *stage) Settle(ctx context.Context, i int) error {
	s.settles = true
	defer func() { s.settles = false }()
	_, err := s.Store(i).Sweep(ctx)
	return err
}

// Store implements interleave.Bench. Neighbouring actors are in different processes.
func (s *stage) Store(i int) admin.Database { return s.stores[max(i, 0)%len(s.stores)] }

// PerCall implements interleave.Bench.
func (*stage) PerCall() bool { return true }

// Blocked implements interleave.Bench. No call starts that would have to wait.
func (*stage) Blocked(context.Context, int) ([]int, error) { return nil, nil }

// Pass implements interleave.Bench.
func (s *stage) Pass(ctx context.Context, d time.Duration) error {
	_, err := s.db.ExecContext(ctx, "update dibs_clock set now = now + ?", d.Microseconds())
	return err
}

// Look implements interleave.Bench.
func (s *stage) Look(ctx context.Context) (interleave.State, error) {
	state := interleave.NewState(time.Time{})
	rows, err := s.db.QueryContext(ctx, lookSQL)
	if err != nil {
		return state, err
	}
	defer rows.Close()
	for rows.Next() {
		var what, text, key string
		var id, a, b, at, until int64
		var flag, other bool
		var token []byte
		if err := rows.Scan(&what, &id, &text, &key, &a, &b, &flag, &other, &at, &until, &token); err != nil {
			return state, err
		}
		switch what {
		case "job", "follower":
			j := interleave.Job{
				ID: id, RunAt: time.UnixMicro(at).UTC(), Attempt: int(a), Priority: int(b), Group: text, Key: key, Cancel: flag, HoldsKey: other, Waits: what == "follower",
			}
			if token != nil {
				j.Token, j.LeaseUntil = dibs.Token(token), time.UnixMicro(until).UTC()
			}
			state.Jobs[id] = j
		case "finished":
			state.Final[id], state.Causes[id] = dibs.State(text), a
		case "edge":
			state.Edges[id] = append(state.Edges[id], interleave.Edge{Parent: a, Need: dibs.Need(text)})
		case "group":
			state.Groups[text] = int(a)
		case "clock":
			state.Now = time.UnixMicro(id).UTC()
		case "queue":
			state.Concurrency, state.GroupLimit, state.Paused, state.Strict = int(a), int(b), flag, other
			state.Forgets = id == 0
		}
	}
	return state, rows.Err()
}

const lookSQL = `
	select case when gate = 5 then 'follower' else 'job' end, id, coalesce(group_key, ''), coalesce(unique_key, ''), attempt, priority, cancel_requested, unique_held, run_at, coalesce(lease_until, 0), token
	from dibs_job
	union all
	select 'finished', id, state, '', coalesce(cause, 0), 0, 0, 0, 0, 0, null
	from dibs_finished
	union all
	select 'edge', child, need, '', parent, 0, 0, 0, 0, 0, null
	from dibs_edge
	union all
	select 'group', 0, group_key, '', places, 0, 0, 0, 0, 0, null
	from dibs_group_limit
	union all
	select 'queue', keep_completed, '', '', concurrency, group_limit, paused, strict, 0, 0, null
	from dibs_queue
	union all
	select 'clock', now, '', '', 0, 0, 0, 0, 0, 0, null
	from dibs_clock`

// TestInterleavingsFindDamage shows that the enumeration can fail.
func TestInterleavingsFindDamage(t *testing.T) {
	t.Parallel()
	open := func(tb testing.TB, rewrite func(name, text string) string) interleave.Bench {
		return newStage(tb, false, rewrite)
	}
	interleave.FindDamage(t, interleave.Options{}, open, []interleave.Damage{
		{
			"a sweep that finds no lease", "a finish past the lease",
			"due_claims", "check_at <= ?1", "check_at < 0 * ?1", "limbo",
		},
		{
			"an extension without its token", "an extension past the lease",
			"extend", "dibs_job.token = l.token", "dibs_job.token is not null", "without a good token",
		},
		{
			"running jobs that count only without a group", "a group in a queue with a limit",
			"running", "gate = 3", "gate = 3 and group_key is null", "jobs run, the limit is",
		},
		{
			"a requeue that brings no followers back", "a parent that is requeued while its end is settled",
			"revived", "f.cause = i.value", "f.cause = - i.value", "was not brought back",
		},
		{
			"added jobs that nothing follows", "an attempt that adds a job past its lease",
			"inherit", "where e.need <> 'failed'", "where e.need = 'failed'", "does not come after job",
		},
	})
}
