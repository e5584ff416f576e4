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
	"github.com/dibs-queue/dibs/internal/history"
)

// Adopted is the copy of an adopted table that a run works on. Nothing is done to the
// table itself: rows of the copy are made from some of its rows.
type Adopted struct {
	Table   *adopt.Store    // the copy
	M       mapping.Mapping // the mapping of the copy
	Mapping string          // the file that holds it
	SQL     *sql.DB         // where the copy is
	SQLite  bool
	Ends    string   // the table into which triggers of the copy write that a row has ended
	Columns []string // columns of the copy that can be written
	Unique  []string // the Columns that get a value of their own in each new row
	copies  string   // the table of rows that new ones are made from
}

// resumes reports whether a restarted worker can tell which rows are its own.
func (a *Adopted) resumes() bool { return a.M.SideTable || a.M.Claim.LockedBy != "" }

// OnTable lets the torture use an adopted table where it takes a database. It asks for nothing
// but what a table can do; the rest would panic.
func OnTable(t Table) dibs.Database { return onTable{Table: t} }

// Table is what the torture asks of an adopted table.
type Table interface {
	dibs.Store
	Queues(ctx context.Context) ([]dibs.Queue, error)
	Stats(ctx context.Context) ([]dibs.QueueStats, error)
	Close() error
}

type onTable struct {
	Table
	missing
}

type missing struct{ dibs.Database }

// workAdopted serves the copy in both ways until ctx ends.
func (c *client) workAdopted(ctx context.Context) error {
	stats, err := c.raw.Queues(ctx)
	if err != nil {
		return expected(err)
	}
	queue := stats[0].Name
	return together(ctx,
		func(ctx context.Context) error { return c.runtime(ctx, queue, c.Resumes) },
		func(ctx context.Context) error { return c.claimer(ctx, queue) })
}

// RunAdopted is Run on the copy of an adopted table.
func RunAdopted(ctx context.Context, c Config) (_ *Result, err error) {
	r := &run{Config: c, counts: map[string]int{}}
	defer r.killAll()
	if r.rec, err = history.OpenIn(c.Dir, "faults"); err != nil {
		return nil, err
	}
	if err := r.describeAdopted(ctx); err != nil {
		return nil, err
	}
	e := &adoptedEvidence{}
	if err := r.inOrder(ctx, e); err != nil {
		return nil, err
	}
	o := &others{Adopted: r.Adopted, row: r.Adopted.Table.ID, rec: r.rec, rng: rand.New(rand.NewPCG(r.Seed, 99))}
	if err := inTurn(ctx, r.makeWorkers, o.learn, r.startAll); err != nil {
		return nil, err
	}
	if err := r.tormentAdopted(ctx, o); err != nil {
		return nil, err
	}
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		var stop context.CancelFunc
		ctx, stop = r.afterwards(ctx)
		defer stop()
	}
	if err := inTurn(ctx, r.drainAdopted, r.endAll); err != nil {
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
		r.DB = onFile{own, r.Adopted.SQL} // so that withSQL finds the file
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
		return r.seatsOf(r.Workers, "worker", false, 0)
	}
	pool, err := r.poolSize(ctx)
	return errors.Join(err, r.seatsOf(r.Workers, "worker", false, pool))
}

// tormentAdopted lets the faults and the other program go on for the time of the run.
func (r *run) tormentAdopted(ctx context.Context, o *others) error {
	ctx, stop := context.WithTimeout(ctx, r.Duration)
	defer stop()
	all := []fault{{500 * time.Millisecond, r.killOne}, {20 * time.Millisecond, o.insert}, {30 * time.Millisecond, func(ctx context.Context, rng *rand.Rand) error {
		n, err := o.meddle(ctx, rng)
		for range n {
			r.count(elsewhere)
		}
		return err
	}}}
	if canStop {
		all = append(all, fault{1500 * time.Millisecond, r.stopOne})
	}
	if !r.onSQLite() {
		all = append(all, fault{30 * time.Millisecond, r.cutOne})
	}
	loops := []func(context.Context) error{func(ctx context.Context) error { return r.look(ctx, "running") }}
	for i, f := range all {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(i)))
		loops = append(loops, func(ctx context.Context) error { return r.repeat(ctx, rng, f) })
	}
	return together(ctx, loops...)
}

// drainAdopted waits for the workers to do what is left, for as long as they get on.
func (r *run) drainAdopted(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return together(ctx,
		func(ctx context.Context) error { return r.look(ctx, "draining") },
		func(ctx context.Context) error {
			defer stop()
			for p := (patience{since: time.Now()}); ctx.Err() == nil; wait(ctx, 100*time.Millisecond) {
				now, err := r.tally(ctx)
				switch {
				case expected(err) != nil:
					return err
				case err != nil:
					now = p.last
				case now.live == 0:
					// A lease whose row another program has ended stays until it is over.
					if held, err := r.Adopted.leases(ctx); err == nil && len(held) == 0 {
						return nil
					}
				}
				if p.over(now, time.Now()) {
					return nil // the judge finds what is left
				}
			}
			return nil
		})
}

// inOrder works all rows of the copy by one worker alone, one at a time, and compares
// with the order of a plain select. What it cannot take is no row to make others from.
func (r *run) inOrder(ctx context.Context, e *adoptedEvidence) error {
	a := r.Adopted
	want, err := a.names(ctx, "select "+a.name()+" from "+a.table()+" t where "+a.ready()+" order by "+a.order())
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
		return &dibs.InvalidError{Field: "table", Reason: "has no row that could be claimed now, to make others from"}
	}
	e.want, e.got = want, got
	return a.keepCopies(ctx)
}
