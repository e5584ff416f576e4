package torture

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs/internal/lab"
)

// fault is an action that is repeated for as long as the faults go on.
type fault struct {
	every time.Duration // the average pause between two repetitions
	do    func(ctx context.Context, rng *rand.Rand) error
}

// The names under which faults are counted.
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

// FaultTexts describe what each name counts.
var FaultTexts = []struct{ Name, Text string }{
	{kills, "processes killed (SIGKILL) and started anew"},
	{stops, "processes stopped past their leases and continued"},
	{cuts, "connections cut after the database's work and before its answer"},
	{crashes, "times that the server was killed and started again"},
	{snapshots, "snapshots held open"},
	{limits, "changes of limits"},
	{pauses, "queues paused"},
	{meddling, "cancels, edits and requeues"},
	{endedElsewhere, "rows ended by another program"},
}

// snapshot is the text in the records of a fault.
const snapshot = "snapshot held (REPEATABLE READ)"

// faults lists the faults that are possible on this database and system.
func (r *run) faults() []fault {
	all := append(
		r.faultsOfProcesses(),
		fault{150 * time.Millisecond, r.changeLimit},
		fault{2 * time.Second, r.pauseOne},
		fault{100 * time.Millisecond, r.changeJobs},
		fault{50 * time.Millisecond, r.serveSteady},
		fault{500 * time.Millisecond, r.claimTwice},
	)
	for range turnTakers {
		all = append(all, fault{20 * time.Millisecond, r.serveTurns})
	}
	if r.onServer() {
		all = append(all, fault{3 * time.Second, r.holdSnapshot})
	}
	if r.Server != nil {
		all = append(all, fault{5 * time.Second, r.crashServer})
	}
	return all
}

// faultsOfProcesses lists those that hit processes and their connections.
func (r *run) faultsOfProcesses() []fault {
	all := []fault{{500 * time.Millisecond, r.killOne}}
	if lab.CanSuspend {
		all = append(all, fault{1500 * time.Millisecond, r.stopOne})
	}
	if r.onServer() && !r.onCluster() {
		all = append(all, fault{30 * time.Millisecond, r.cutOne})
	}
	return all
}

// repeat repeats a fault until ctx ends. It returns only errors that the faults do not explain.
func (r *run) repeat(ctx context.Context, rng *rand.Rand, f fault) error {
	for {
		wait(ctx, time.Duration((0.5+rng.Float64())*float64(f.every)))
		if ctx.Err() != nil {
			return nil
		}
		if err := f.do(ctx, rng); unexpected(err) != nil {
			return err
		}
	}
}

func (r *run) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

func (r *run) anySeat(rng *rand.Rand) *seat { return r.seats[rng.IntN(len(r.seats))] }

// killOne kills a process while it works, and starts another in its place.
func (r *run) killOne(_ context.Context, rng *rand.Rand) error {
	did, err := r.anySeat(rng).Replace()
	if did && err == nil {
		r.count(kills)
	}
	return err
}

// stopOne stops a process for longer than its leases last.
func (r *run) stopOne(ctx context.Context, rng *rand.Rand) error {
	did, err := r.anySeat(rng).Suspend(ctx, lease+time.Duration(rng.Int64N(int64(lease))))
	if did && err == nil && ctx.Err() == nil {
		r.count(stops)
	}
	return err
}

// cutOne cuts a connection after the server has executed a statement and before its answer
// arrives. The seat is not locked, so that cuts also hit stopped and dying processes.
func (r *run) cutOne(ctx context.Context, rng *rand.Rand) error {
	s := r.anySeat(rng)
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if !s.proxy.cut(ctx) {
		return nil // no answer came that could be held back
	}
	r.count(cuts)
	return r.rec.Fault(s.Process().Name, "connection cut, the answer held back", func() error { return nil })
}

// holdSnapshot holds a snapshot open for a while, so that the server cannot vacuum. If the
// server is away, it first waits for it.
func (r *run) holdSnapshot(ctx context.Context, _ *rand.Rand) error {
	return r.rec.Fault("", snapshot, func() error {
		return r.withSQL(func(db *sql.DB) error {
			for ctx.Err() == nil && !r.tryHold(ctx, db) {
				wait(ctx, 50*time.Millisecond)
			}
			return nil
		})
	})
}

// tryHold holds a snapshot, and returns false if the server is unreachable.
func (r *run) tryHold(ctx context.Context, db *sql.DB) bool {
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
