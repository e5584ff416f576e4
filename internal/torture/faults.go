package torture

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"
)

// fault is something that is done again and again, for as long as the faults go on.
type fault struct {
	every time.Duration // on average, from the end of one to the beginning of the next
	do    func(ctx context.Context, rng *rand.Rand) error
}

// What the counts of faults are called.
const (
	kills     = "kills"
	stops     = "stops"
	cuts      = "cuts"
	crashes   = "server_kills"
	snapshots = "snapshots"
	limits    = "limits"
	pauses    = "pauses"
	meddling  = "meddling"
)

// FaultTexts explain the counts.
var FaultTexts = []struct{ Name, Text string }{
	{kills, "processes killed (SIGKILL) and started anew"},
	{stops, "processes stopped past their leases and continued"},
	{cuts, "connections cut after the database's work and before its answer"},
	{crashes, "times that the server was killed and started again"},
	{snapshots, "snapshots held open"},
	{limits, "changes of limits"},
	{pauses, "queues paused"},
	{meddling, "cancels, edits and requeues"},
	{elsewhere, "rows ended by another program"},
}

// The texts of some faults' records.
const (
	killed   = "killed (SIGKILL)"
	snapshot = "snapshot held (REPEATABLE READ)"
)

// faults are those that the database and the system allow.
func (r *run) faults() []fault {
	all := []fault{
		{500 * time.Millisecond, r.killOne},
		{150 * time.Millisecond, r.changeLimit},
		{2 * time.Second, r.pauseOne},
		{100 * time.Millisecond, r.interfere},
		{50 * time.Millisecond, r.serve},
		{500 * time.Millisecond, r.claimTwice},
	}
	if canStop {
		all = append(all, fault{1500 * time.Millisecond, r.stopOne})
	}
	if !r.onSQLite() {
		all = append(all, fault{30 * time.Millisecond, r.cutOne}, fault{3 * time.Second, r.holdSnapshot})
	}
	if r.Server != nil {
		all = append(all, fault{5 * time.Second, r.crashServer})
	}
	return all
}

// repeat does a fault until ctx ends. An error is one that makes the run worthless.
func (r *run) repeat(ctx context.Context, rng *rand.Rand, f fault) error {
	for {
		wait(ctx, time.Duration((0.5+rng.Float64())*float64(f.every)))
		if ctx.Err() != nil {
			return nil
		}
		if err := f.do(ctx, rng); expected(err) != nil {
			return err
		}
	}
}

func (r *run) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

// pick chooses a seat to which nothing is being done, and locks it; nil: chance chose
// one that is taken.
func (r *run) pick(rng *rand.Rand) *seat {
	s := r.seats[rng.IntN(len(r.seats))]
	if !s.mu.TryLock() {
		return nil
	}
	return s
}

// killOne kills a process at its work and starts another in its place.
func (r *run) killOne(_ context.Context, rng *rand.Rand) error {
	s := r.pick(rng)
	if s == nil {
		return nil
	}
	defer s.mu.Unlock()
	if err := s.now.crashed(); err != nil {
		return err
	}
	if err := r.rec.Fault(s.now.client, killed, s.now.kill); err != nil {
		return err
	}
	r.count(kills)
	return s.start()
}

// stopOne stops a process for longer than its leases last.
func (r *run) stopOne(ctx context.Context, rng *rand.Rand) error {
	s := r.pick(rng)
	if s == nil {
		return nil
	}
	defer s.mu.Unlock()
	if err := s.now.crashed(); err != nil {
		return err
	}
	d := lease + time.Duration(rng.Int64N(int64(lease)))
	err := r.rec.Fault(s.now.client, fmt.Sprintf("stopped (SIGSTOP) for %v", d.Round(time.Millisecond)), func() error {
		if err := stop(s.now.cmd.Process); err != nil {
			return err
		}
		wait(ctx, d)
		return cont(s.now.cmd.Process)
	})
	if ctx.Err() == nil {
		r.count(stops)
	}
	return err
}

// cutOne cuts a connection after the server did what it was asked and before its
// answer came back. The seat is not locked: cuts also hit the stopped and the dying.
func (r *run) cutOne(ctx context.Context, rng *rand.Rand) error {
	s := r.seats[rng.IntN(len(r.seats))]
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if !s.proxy.cut(ctx) {
		return nil // nobody asked for anything
	}
	r.count(cuts)
	s.mu.Lock()
	client := s.now.client
	s.mu.Unlock()
	return r.rec.Fault(client, "connection cut, the answer held back", func() error { return nil })
}

// holdSnapshot keeps the server from cleaning up for a while, as soon as it is there.
func (r *run) holdSnapshot(ctx context.Context, _ *rand.Rand) error {
	return r.rec.Fault("", snapshot, func() error {
		return r.withSQL(func(db *sql.DB) error {
			for ctx.Err() == nil && !r.held(ctx, db) {
				wait(ctx, 50*time.Millisecond)
			}
			return nil
		})
	})
}

// held holds a snapshot, unless the server is away.
func (r *run) held(ctx context.Context, db *sql.DB) bool {
	t, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return false
	}
	defer t.Rollback()
	var n int
	if err := t.QueryRowContext(ctx, "select count(*) from "+r.Effects).Scan(&n); err != nil {
		return false
	}
	r.count(snapshots)
	wait(ctx, 10*time.Second)
	return true
}

// crashServer ends the server without warning and starts it again.
func (r *run) crashServer(_ context.Context, rng *rand.Rand) error {
	hard := rng.IntN(2) == 0
	text := "server ended (immediate)"
	if hard {
		text = "server killed (SIGKILL)"
	}
	r.count(crashes)
	return r.rec.Fault("", text+" and started again", func() error {
		if err := r.Server.Crash(hard); err != nil {
			return err
		}
		return r.Server.Start()
	})
}
