package torture

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
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
func OnTable(t Table) admin.Database { return onTable{Table: t} }

// Table holds the methods of an adopted table that a run calls.
type Table interface {
	dibs.Store
	Queues(ctx context.Context, names ...string) ([]dibs.Queue, error)
	Stats(ctx context.Context) ([]admin.QueueStats, error)
	Close() error
}

type onTable struct {
	Table
	missing
}

type missing struct{ admin.Database }

// workAdopted serves the copy until ctx ends, with dibs' worker and with direct calls.
func (c *client) workAdopted(ctx context.Context) error {
	stats, err := c.raw.Queues(ctx)
	if err != nil {
		return unexpected(err)
	}
	queue := stats[0].Name
	return runAll(ctx,
		func(ctx context.Context) error { return c.runWorker(ctx, c.tortured(queue, c.Resumes), nil) },
		func(ctx context.Context) error { return c.runClaimer(ctx, c.store, queue) })
}

// adoptedPlan is the plan of a run on the copy of an adopted table. Another program inserts and changes rows.
func (r *run) adoptedPlan() plan {
	e := &adoptedEvidence{}
	o := &others{Adopted: r.Adopted, rowID: r.Adopted.Table.ID, rec: r.rec, rng: rand.New(rand.NewPCG(r.Seed, 99))}
	meddle := func(ctx context.Context, rng *rand.Rand) error {
		n, err := o.meddle(ctx, rng)
		for range n {
			r.count(endedElsewhere)
		}
		return err
	}
	inOrder := func(ctx context.Context) error { return r.inOrder(ctx, e) }
	return plan{
		producers: 1, // the other program
		begin:     []step{r.describeAdopted, inOrder, r.addAll, o.learnTable},
		faults:    append(r.faultsOfProcesses(), fault{20 * time.Millisecond, o.insert}, fault{30 * time.Millisecond, meddle}),
		every:     tick,
		follow: func(ctx context.Context, p *Progress) (bool, error) {
			for i := range p.Queues { // an adopted table has one queue, and its statistics do not count what has ended
				p.Queues[i].Completed = r.Adopted.ended(ctx)
			}
			return false, nil
		},
		end:   []step{r.drain},
		judge: func(ctx context.Context) (*Result, error) { return r.judgeAdopted(ctx, e) },
	}
}

func (r *run) describeAdopted(ctx context.Context) error {
	own := r.DB
	if r.Adopted.SQLite {
		r.DB = onFile{own, r.Adopted.SQL} // withSQL uses the file's connections
	}
	err := r.describe(ctx)
	r.DB = own
	return err
}

type onFile struct {
	admin.Database
	db *sql.DB
}

func (f onFile) DB() *sql.DB { return f.db }

// nothingHeld reports whether no row has a lease: if another program has ended a leased row, the lease
// still runs on.
func (a *Adopted) nothingHeld(ctx context.Context) bool {
	held, err := a.leases(ctx)
	return err == nil && len(held) == 0
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
