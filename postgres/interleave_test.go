package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/interleave"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/postgres"
)

// TestInterleavings runs small programs in every order of their statements, or in
// the simplest 60; in make night in ten times as many, with DIBS_SOAK=1 in many more.
func TestInterleavings(t *testing.T) {
	server := pgtest.URL(t)
	// A scenario takes over the stage of one that has ended well: its sessions have planned their statements.
	var mu sync.Mutex
	var free []*stage
	interleave.Run(t, interleavings(), func(tb testing.TB) interleave.Bench {
		mu.Lock()
		defer mu.Unlock()
		var s *stage
		if last := len(free) - 1; last >= 0 {
			s, free = free[last], free[:last]
		} else {
			s = newStage(t, server, nil)
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
	o := interleave.Options{Most: 60, Seed: 1, Waits: waits}
	switch {
	case os.Getenv("DIBS_SOAK") != "":
		o.Most = 10_000
	case needs.AtNight():
		o.Most = 600
	}
	return o
}

// waits lists which call may wait for which. A claim never waits. Calls that wait for a claim
// wait for its own short transaction; an enqueue waits for a call that may be giving up, or
// taking, the unique key that it wants.
var waits = []string{
	"finish for cancel", "finish for finish", "finish for resume",
	"finish for sweep", "transaction for sweep", "transaction undone for sweep", // when the lease has ended: it may just be being extended
	"finish for claim",   // the claim counts running jobs under a new limit
	"finish for settle",  // it has just learnt of a follower, and marks the job
	"requeue for settle", // a requeue takes turns with settlements
	"set group for claim", "set queue for claim",
	"enqueue for claim", "enqueue for enqueue", "enqueue for finish", "enqueue for requeue", "requeue for enqueue",
	"enqueue for transaction undone", "transaction undone for claim", "transaction undone for enqueue",
}

// stage is a database with stores that stop before each statement, and a clock that each
// statement moves by a millisecond.
type stage struct {
	tb       testing.TB
	schema   string
	observer *pgxpool.Pool                   // reads the state between steps
	actors   []*actor                        // the last one never stops
	stop     func(int, interleave.Step) bool // nil: no actor stops
	now      time.Time
	reset    string
	look     string
}

const mostActors = 5

var stages atomic.Int64 // number of stages made so far

// newStage makes a schema and its stores; damage changes the actors' statements.
func newStage(tb testing.TB, server string, damage func(name, text string) string) *stage {
	tb.Helper()
	ctx := tb.Context()
	s := &stage{tb: tb, schema: fmt.Sprintf("stage_%d", stages.Add(1))}
	own := strings.NewReplacer("dibs.", s.schema+".")
	s.reset, s.look = own.Replace(resetSQL), own.Replace(lookSQL)
	o := postgres.Options{Schema: s.schema, Pooler: true} // no NOTIFY and LISTEN
	if err := postgres.Migrate(ctx, server, o); err != nil {
		tb.Fatal(err)
	}
	var err error
	if s.observer, err = pgxpool.New(ctx, server); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.observer.Close)
	for i := range mostActors + 1 {
		s.actors = append(s.actors, newActor(s, i, server, o, damage))
	}
	return s
}

// actor is a process as far as the database can tell: a store with its own pool.
// Only the goroutine that may go on uses the fields that change during a run.
type actor struct {
	*postgres.Store
	stage          *stage
	number         int
	statementNames map[string]string // names of statements, by text
	pid            atomic.Uint32     // process id of the connection that it last used
	holds          bool              // its transaction may have changed or locked something
	idle           bool              // the rest of the transaction does nothing
	tries          map[string]int
	clockOf        map[uint32]string // the time set on each connection, by process id
}

func newActor(s *stage, number int, server string, o postgres.Options, damage func(name, text string) string) *actor {
	s.tb.Helper()
	a := &actor{stage: s, number: number, statementNames: map[string]string{}, tries: map[string]int{}, clockOf: map[uint32]string{}}
	c, err := pgxpool.ParseConfig(server)
	if err != nil {
		s.tb.Fatal(err)
	}
	c.MaxConns = 1
	for _, name := range []string{"synchronous_commit", "jit", "enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_material"} {
		c.ConnConfig.RuntimeParams[name] = "off"
	}
	c.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan" // the setting of Open's connections
	c.ConnConfig.Tracer = a
	pool, err := pgxpool.NewWithConfig(s.tb.Context(), c)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(pool.Close)
	if a.Store, err = postgres.New(s.tb.Context(), pool, o); err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { _ = a.Close() }) // never fails
	a.Rewrite(func(name, text string) string {
		if damage != nil && number < mostActors {
			text = damage(name, text)
		}
		for _, clock := range []string{"statement_timestamp()", "clock_timestamp()"} {
			text = strings.ReplaceAll(text, clock, "current_setting('dibs_stage.now')::timestamptz")
		}
		a.statementNames[qualify.Text(text)] = name
		return text
	})
	if number < mostActors {
		a.SendSeparately(clockSQL, func(got bool) { a.holds, a.idle = got, !got })
	}
	return a
}

const clockSQL = "select set_config('dibs_stage.now', $1, true)"

// readers are statements that lock and change nothing: the end of their transaction is no step.
var readers = map[string]bool{
	"queues": true, "pending": true, "clock_due": true, "present": true, "held": true, "holders": true, "lanes": true, "due_queues": true, "new_queues": true,
}

// afterTurn are statements that do nothing without the turn that their transaction has asked for.
var afterTurn = map[string]bool{
	"due": true, "admit": true, "expire": true, "settle_take": true, "settle_close": true, "settle_end": true, "settle_release": true,
}

// TraceBatchStart stops before a statement.
func (a *actor) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if len(data.Batch.QueuedQueries) == 0 {
		return ctx
	}
	parts := data.Batch.QueuedQueries
	name := a.statementNames[parts[len(parts)-1].SQL]
	if a.idle && afterTurn[name] {
		return a.send(ctx, conn, parts[0])
	}
	a.idle = false
	step := interleave.Step{Name: name, Holds: a.holds, Idle: a.tries[name] > 0}
	switch name {
	case "cancel", "edit", "extend": // repeated for rows that they found locked
		a.tries[name]++
	}
	if !a.stop(step) {
		return abandoned()
	}
	a.holds = a.holds || !readers[name]
	return a.send(ctx, conn, parts[0])
}

// send sets the time on the connection.
func (a *actor) send(ctx context.Context, conn *pgx.Conn, first *pgx.QueuedQuery) context.Context {
	a.pid.Store(conn.PgConn().PID())
	now := a.stage.now.Format("2006-01-02 15:04:05.999999Z07:00")
	if a.number < mostActors {
		a.stage.now = a.stage.now.Add(time.Millisecond)
	}
	if first.SQL == clockSQL {
		first.Arguments[0] = now
		return ctx
	}
	if now == a.clockOf[a.pid.Load()] {
		return ctx
	}
	if _, err := conn.PgConn().Exec(ctx, "set dibs_stage.now = '"+now+"'").ReadAll(); err != nil {
		return abandoned() // the connection must not go on without the time
	}
	if a.number == mostActors { // the other actors set it in each transaction
		a.clockOf[a.pid.Load()] = now
	}
	return ctx
}

// TraceQueryStart stops before the end of a transaction.
func (a *actor) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL != "commit" && data.SQL != "rollback" {
		return ctx
	}
	if a.holds {
		a.pid.Store(conn.PgConn().PID())
		_ = a.stop(interleave.Step{Name: data.SQL, Holds: true, Ends: true}) // the end of a transaction is never abandoned
	}
	a.holds, a.idle = false, false
	if data.SQL == "rollback" {
		delete(a.clockOf, conn.PgConn().PID())
	}
	return ctx
}

// TraceBatchQuery notes when a repeated statement, which skips locked rows, has found none.
func (a *actor) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if a.tries[a.statementNames[data.SQL]] > 0 && data.CommandTag.RowsAffected() == 0 {
		a.holds = false
	}
}

func (a *actor) stop(step interleave.Step) bool {
	return a.number == mostActors || a.stage.stop == nil || a.stage.stop(a.number, step)
}

func (*actor) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
func (*actor) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func abandoned() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Reset implements interleave.Bench.
func (s *stage) Reset(ctx context.Context) error {
	s.now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	last := s.last().Store
	last.JustOpened(interleave.Queue, last)
	_, err := s.observer.Exec(ctx, s.reset, pgx.QueryExecModeSimpleProtocol)
	return err
}

// Start implements interleave.Bench.
func (s *stage) Start(ctx context.Context, stop func(int, interleave.Step) bool) error {
	if _, err := s.last().Queues(ctx); err != nil {
		return err
	}
	for _, a := range s.actors[:mostActors] {
		a.JustOpened(interleave.Queue, s.last().Store)
		clear(a.tries)
	}
	s.stop = stop
	return nil
}

// Finish implements interleave.Bench.
func (s *stage) Finish() { s.stop = nil }

func (s *stage) last() *actor { return s.actors[mostActors] }

// Store implements interleave.Bench.
func (s *stage) Store(i int) admin.Database {
	if i < 0 {
		return s.last()
	}
	return s.actors[i]
}

// PerCall implements interleave.Bench.
func (*stage) PerCall() bool { return false }

// Settles implements interleave.Bench.
func (*stage) Settles() bool { return true }

// Settle implements interleave.Bench.
func (s *stage) Settle(ctx context.Context, i int) error { return s.actors[i].SettleOnce(ctx) }

// Pass implements interleave.Bench.
func (s *stage) Pass(_ context.Context, d time.Duration) error {
	s.now = s.now.Add(d)
	return nil
}

// Blocked implements interleave.Bench.
func (s *stage) Blocked(ctx context.Context, i int) (by []int, err error) {
	rows, err := s.observer.Query(ctx, "select unnest(pg_blocking_pids($1))", s.actors[i].pid.Load())
	if err != nil {
		return nil, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
	for _, pid := range pids {
		for _, a := range s.actors {
			if a.pid.Load() == pid {
				by = append(by, a.number)
			}
		}
	}
	return by, err
}

// Look implements interleave.Bench.
func (s *stage) Look(ctx context.Context) (interleave.State, error) {
	state := interleave.NewState(s.now)
	rows, err := s.observer.Query(ctx, s.look)
	if err != nil {
		return state, err
	}
	var kind, text, key string
	var id, a, b int64
	var flag, other bool
	var at, until *time.Time
	var token *[16]byte
	_, err = pgx.ForEachRow(rows, []any{&kind, &id, &text, &key, &a, &b, &flag, &other, &at, &until, &token}, func() error {
		switch kind {
		case "job", "follower":
			j := interleave.Job{
				ID: id, RunAt: at.UTC(), Attempt: int(a), Priority: int(b), Group: text, Key: key, Cancel: flag, HoldsKey: other, Waits: kind == "follower",
			}
			if token != nil {
				j.Token, j.LeaseUntil = *token, until.UTC()
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
		return nil
	})
	return state, err
}

const lookSQL = `
	select case when gate = 5 then 'follower' else 'job' end, id, coalesce(group_key, ''), coalesce(unique_key, ''), attempt::bigint, priority::bigint, cancel_requested, unique_held, run_at, lease_until, token
	from dibs.job
	union all
	select 'finished', id, state, '', coalesce(cause, 0), 0, false, false, null, null, null
	from dibs.finished
	union all
	select 'edge', child, need, '', parent, 0, false, false, null, null, null
	from dibs.edge
	union all
	select 'group', 0, group_key, '', places, 0, false, false, null, null, null
	from dibs.group_limit
	union all
	select 'queue', extract(epoch from keep_completed)::bigint, '', '', concurrency, group_limit, paused, strict, null, null, null
	from dibs.queue`

const resetSQL = `
	delete from dibs.queue; delete from dibs.turn; delete from dibs.group_limit; delete from dibs.job; delete from dibs.payload;
	delete from dibs.finished; delete from dibs.claim; delete from dibs.wake; delete from dibs.wake_list; delete from dibs.tally; delete from dibs.history;
	delete from dibs.edge; delete from dibs.ended_list;
	insert into dibs.queue (name) values ('q'); insert into dibs.turn (queue) values ('q')`
