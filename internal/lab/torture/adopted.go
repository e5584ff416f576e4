package torture

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab"
)

// Adopted is the copy of an adopted table that a run works on. The rows of the copy are made
// from some of the table's rows; the table itself is not changed.
type Adopted struct {
	Table   *adopt.Store    // the copy
	M       mapping.Mapping // the copy's mapping
	Mapping string          // the file with the copy's mapping
	SQL     *sql.DB         // the copy's database
	SQLite  bool
	Ends    string   // the table in which triggers of the copy note each end of a row
	Columns []string // the copy's columns that can be written
	Unique  []string // columns that get a new value in each new row
	copies  string   // the table of rows from which new rows are made
}

// resumes reports whether a restarted worker can find the rows that it held.
func (a *Adopted) resumes() bool { return a.M.SideTable || a.M.Claim.LockedBy != "" }

// OnTable lets a run use an adopted table as its database. Methods that a table does not have
// panic, but the run does not call them.
func OnTable(t Table) dibs.Database { return onTable{Table: t} }

// Table holds the methods of an adopted table that a run calls.
type Table interface {
	dibs.Store
	Queues(ctx context.Context, names ...string) ([]dibs.Queue, error)
	Stats(ctx context.Context) ([]dibs.QueueStats, error)
	Close() error
}

type onTable struct {
	Table
	missing
}

type missing struct{ dibs.Database }

// workAdopted serves the copy until ctx ends, with dibs' worker and with direct calls.
func (c *client) workAdopted(ctx context.Context) error {
	stats, err := c.raw.Queues(ctx)
	if err != nil {
		return unexpected(err)
	}
	queue := stats[0].Name
	return runAll(ctx,
		func(ctx context.Context) error { return c.runWorker(ctx, queue, c.Resumes, nil) },
		func(ctx context.Context) error { return c.runClaimer(ctx, c.store, queue) })
}

// RunAdopted is Run on the copy of an adopted table.
func RunAdopted(ctx context.Context, c Config) (_ *Result, err error) {
	r := &run{Config: c, counts: map[string]int{}}
	defer r.killAll()
	if err := r.openRecords(); err != nil {
		return nil, err
	}
	if err := r.describeAdopted(ctx); err != nil {
		return nil, err
	}
	e := &adoptedEvidence{}
	if err := r.inOrder(ctx, e); err != nil {
		return nil, err
	}
	o := &others{Adopted: r.Adopted, rowID: r.Adopted.Table.ID, rec: r.rec, rng: rand.New(rand.NewPCG(r.Seed, 99))}
	if err := runSteps(ctx, r.makeWorkers, o.learnTable, r.startAll); err != nil {
		return nil, err
	}
	if err := r.tormentAdopted(ctx, o); err != nil {
		return nil, err
	}
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		var stop context.CancelFunc
		ctx, stop = r.outlive(ctx)
		defer stop()
	}
	if err := runSteps(ctx, r.drainAdopted, r.endAll); err != nil {
		return nil, err
	}
	if err := r.rec.Close(); err != nil {
		return nil, err
	}
	r.Took, r.Faults = time.Since(r.Began), r.counts
	return r.judgeAdopted(ctx, e)
}

func (r *run) describeAdopted(ctx context.Context) error {
	own := r.DB
	if r.Adopted.SQLite {
		r.DB = onFile{own, r.Adopted.SQL} // withSQL uses the file's connections
	}
	err := r.describe(ctx)
	r.DB, r.Producers = own, 1
	return err
}

type onFile struct {
	dibs.Database
	db *sql.DB
}

func (f onFile) DB() *sql.DB { return f.db }

func (r *run) makeWorkers(ctx context.Context) error {
	if r.onSQLite() {
		return r.addSeats(r.Workers, "worker", false, 0)
	}
	pool, err := r.poolSize(ctx)
	return errors.Join(err, r.addSeats(r.Workers, "worker", false, pool))
}

// tormentAdopted runs the faults and the other program for the duration of the run.
func (r *run) tormentAdopted(ctx context.Context, o *others) error {
	ctx, stop := context.WithTimeout(ctx, r.Duration)
	defer stop()
	all := []fault{{500 * time.Millisecond, r.killOne}, {20 * time.Millisecond, o.insert}, {30 * time.Millisecond, func(ctx context.Context, rng *rand.Rand) error {
		n, err := o.meddle(ctx, rng)
		for range n {
			r.count(endedElsewhere)
		}
		return err
	}}}
	if lab.CanSuspend {
		all = append(all, fault{1500 * time.Millisecond, r.stopOne})
	}
	if !r.onSQLite() {
		all = append(all, fault{30 * time.Millisecond, r.cutOne})
	}
	loops := []func(context.Context) error{func(ctx context.Context) error { return r.monitor(ctx, "running") }}
	for i, f := range all {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(i)))
		loops = append(loops, func(ctx context.Context) error { return r.repeat(ctx, rng, f) })
	}
	return runAll(ctx, loops...)
}

// drainAdopted waits until the workers have ended all rows, or make no progress any more.
func (r *run) drainAdopted(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return runAll(ctx,
		func(ctx context.Context) error { return r.monitor(ctx, "draining") },
		func(ctx context.Context) error {
			defer stop()
			for timer := (stallTimer{since: time.Now()}); ctx.Err() == nil; wait(ctx, 100*time.Millisecond) {
				counts, err := r.tally(ctx)
				switch {
				case unexpected(err) != nil:
					return err
				case err != nil:
					counts = timer.last
				case counts.live == 0:
					// If another program has ended a leased row, the lease still runs on.
					if held, err := r.Adopted.leases(ctx); err == nil && len(held) == 0 {
						return nil
					}
				}
				if timer.stalled(counts, time.Now()) {
					return nil // the judge accuses the rows that are left
				}
			}
			return nil
		})
}

// inOrder claims and completes all rows of the copy, one at a time. It notes their order and
// that of a plain select. New rows are later made only from rows that it could claim.
func (r *run) inOrder(ctx context.Context, e *adoptedEvidence) error {
	a := r.Adopted
	want, err := a.queryNames(ctx, "select "+a.nameSQL()+" from "+a.tableSQL()+" t where "+a.readyCondition()+" order by "+a.orderBy())
	if err != nil {
		return err
	}
	var got []string
	for {
		jobs, err := r.DB.Claim(ctx, dibs.ClaimRequest{Worker: "alone", N: 1})
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			break
		}
		got = append(got, nameOf(jobs[0]))
		if err := r.DB.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
			return err
		}
	}
	if len(got) == 0 {
		return &dibs.InvalidError{Field: "table", Reason: "has no row that could be claimed now; the torture makes its rows from such rows"}
	}
	e.order, e.claimed = want, got
	return a.keepCopies(ctx)
}
