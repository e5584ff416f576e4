package mysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/interleave"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/mysql"
)

// TestInterleavings runs small programs in the simplest orders of their statements, and in many with DIBS_SOAK=1.
func TestInterleavings(t *testing.T) {
	needs.Night(t, "on a busy machine one of hundreds of orders could not be repeated, for a reason not found yet")
	t.Parallel()
	// A scenario takes over the stage of one that has ended well: making all tables takes longer than a run.
	var mu sync.Mutex
	var free []*stage
	interleave.Run(t, interleavings(), func(tb testing.TB) interleave.Bench {
		mu.Lock()
		defer mu.Unlock()
		var s *stage
		if last := len(free) - 1; last >= 0 {
			s, free = free[last], free[:last]
		} else {
			s = newStage(t, nil)
		}
		tb.Cleanup(func() {
			mu.Lock()
			defer mu.Unlock()
			if !tb.Failed() {
				free = append(free, s)
			}
		})
		return s
	})
}

func interleavings() interleave.Options {
	o := interleave.Options{Most: 60, Seed: 1}
	if os.Getenv("DIBS_SOAK") != "" {
		o.Most = 10_000
	}
	return o
}

// stage is a database with stores that stop before each statement, and a clock that each statement moves by a millisecond.
type stage struct {
	observer *sql.DB                         // reads the state between steps
	actors   []*actor                        // the last one never stops
	stop     func(int, interleave.Step) bool // nil: no actor stops
	now      time.Time
	wrong    error // a statement has waited that must not
}

const mostActors = 5

// newStage makes the tables and the stores; damage changes the actors' statements.
func newStage(tb testing.TB, damage func(name, text string) string) *stage {
	tb.Helper()
	address := mytest.Address(tb)
	s := &stage{now: epoch}
	var err error
	if s.observer, err = sql.Open("mysql", address); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.observer.Close() })
	for i := range mostActors + 1 {
		a := &actor{stage: s, number: i}
		through := func(c driver.Connector) driver.Connector { return stepping{c, a} }
		if a.Store, err = mysql.Open(tb.Context(), address, mysql.Options{MaxConns: 2}.Through(through)); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = a.Close() })
		if damage != nil && i < mostActors {
			a.Rewrite(damage)
		}
		a.parts = a.Parts()
		a.Stepwise(func() bool { return a.settles || s.stop == nil })
		s.actors = append(s.actors, a)
	}
	return s
}

// actor is a process as far as the database can tell. Only the goroutine that may go on uses the fields that change during
// a run.
type actor struct {
	*mysql.Store
	stage   *stage
	number  int
	parts   map[string][]mysql.Part
	holds   bool // its transaction may have changed or locked something
	again   bool // the next statement is of a call that is made again, as another transaction holds what it needs
	repeats bool // the call will be made again
	settles bool // its calls look at the jobs that come after those that have ended
}

// Sweep sweeps, and has claims not do it.
func (a *actor) Sweep(ctx context.Context) (dibs.Swept, error) { return a.Swept(ctx) }

func (a *actor) stops(step interleave.Step) bool {
	return a.number == mostActors || a.stage.stop == nil || a.stage.stop(a.number, step)
}

// end stops before the end of a transaction.
func (a *actor) end(how string) {
	if a.holds {
		_ = a.stops(interleave.Step{Name: how, Holds: true, Ends: true}) // the end of a transaction is never abandoned
	}
	a.again = how == "rollback" || a.repeats
	a.holds, a.repeats = false, false
}

// waited notes that a statement has waited. Claims pass over what others have locked.
func (s *stage) waited(statement string) {
	if name, _, _ := strings.Cut(statement, ","); strings.HasPrefix(name, "claim") || name == "fair" || name == "lanes" {
		s.wrong = fmt.Errorf("a claim waits for another transaction: %s", statement)
	}
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// Reset implements interleave.Bench.
func (s *stage) Reset(ctx context.Context) error {
	s.now, s.wrong = epoch, nil
	for text := range strings.SplitSeq(resetSQL, ";") {
		if _, err := s.observer.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	for _, a := range s.actors {
		a.SweepNever()
		a.holds, a.again, a.repeats, a.settles = false, false, false, false
	}
	_, err := s.actors[mostActors].ChangeQueue(ctx, interleave.Queue, dibs.QueueChange{}.Apply)
	return err
}

// Start implements interleave.Bench.
func (s *stage) Start(_ context.Context, stop func(int, interleave.Step) bool) error {
	s.stop = stop
	return nil
}

// Finish implements interleave.Bench.
func (s *stage) Finish() {
	s.stop = nil
	s.now = s.now.Add(time.Second) // an admission that has found jobs locked is made again after 0.1 s
}

// Store implements interleave.Bench. Each call asks for it.
func (s *stage) Store(i int) admin.Database {
	if i < 0 {
		i = mostActors
	}
	s.actors[i].again, s.actors[i].repeats = false, false
	return s.actors[i]
}

// PerCall implements interleave.Bench.
func (*stage) PerCall() bool { return false }

// Settles implements interleave.Bench.
func (*stage) Settles() bool { return true }

// Settle implements interleave.Bench.
func (s *stage) Settle(ctx context.Context, i int) error {
	a := s.actors[i]
	a.again, a.repeats, a.settles = false, false, true
	defer func() { a.settles = false }()
	_, err := a.Sweep(ctx)
	return err
}

// Blocked implements interleave.Bench. No statement waits: one that would have to is a step that cannot be made.
func (*stage) Blocked(context.Context, int) ([]int, error) { return nil, nil }

// Pass implements interleave.Bench.
func (s *stage) Pass(_ context.Context, d time.Duration) error {
	s.now = s.now.Add(d)
	return nil
}

// Look implements interleave.Bench.
func (s *stage) Look(ctx context.Context) (interleave.State, error) {
	state := interleave.NewState(s.now)
	if s.wrong != nil {
		return state, s.wrong
	}
	rows, err := s.observer.QueryContext(ctx, lookSQL)
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
	from dibs_queue`

// resetSQL leaves the rows by which calls take turns: whether these exist must be the same in all runs.
const resetSQL = `delete from dibs_job; delete from dibs_finished; delete from dibs_claim; delete from dibs_tally; delete from dibs_history;
	delete from dibs_group_limit; delete from dibs_queue; delete from dibs_edge; delete from dibs_ended_list; delete from dibs_wake; delete from dibs_start;
	delete from dibs_rate; delete from dibs_reached; delete from dibs_key; delete from dibs_unique_window; delete from dibs_turn where what = 'group';
	insert ignore into dibs_turn (what, queue) values ('claim', 'q'), ('admit', 'q'), ('queue', 'q'), ('make', 'q'), ('sweep', ''), ('flows', ''), ('ticks', '')`

// TestInterleavingsFindDamage shows that the enumeration can fail: each of these statements is wrong in a way that only some
// orders show.
func TestInterleavingsFindDamage(t *testing.T) {
	needs.Night(t, "each damage takes up to some hundred runs")
	t.Parallel()
	o := interleavings()
	o.Most = 1000
	open := func(tb testing.TB, rewrite func(name, text string) string) interleave.Bench {
		return newStage(tb, rewrite)
	}
	interleave.FindDamage(t, o, open, []interleave.Damage{
		{
			"claims that lock nothing", "claims beside an enqueue",
			"claim", "      for update skip locked\n", "", "a claim waits",
		},
		{
			"an extension without its token", "an extension past the lease",
			"extend", "where j.token = unhex(i.token) and j.lease_until > ?2", "where j.token is not null and ?2 > 0", "without a good token",
		},
		{
			"keys that are looked at without their locks", "two enqueues of one key",
			"lock_keys", "  limit 1000000\n  for update skip locked\n", "  limit 1000000\n", "",
		},
		{
			"turns that are not locked", "a limit of 1 that is raised",
			"take_turn", "  limit 1\n  for update skip locked\n", "  limit 1\n", "jobs run, the limit is",
		},
		{
			"a running job that is not counted", "a group's place that becomes free",
			"group", "coalesce(sum(h.place = 3), 0)", "coalesce(sum(h.place = 3), 0) - 1", "the limit is 1",
		},
		{
			"an end that wakes no group", "a group's place that becomes free",
			"wake", "path '$[1]')) l", "path '$[1]')) l\nwhere false", "nobody told",
		},
		{
			"outcomes of jobs that are not locked", "a finish past the lease",
			"held", "where j.gate = 3\nfor update skip locked", "where j.gate = 3", "",
		},
		{
			"a requeue that brings no followers back", "a parent that is requeued while its end is settled",
			"revived", "f.cause = i.id", "f.cause = - i.id", "was not brought back",
		},
	})
}
