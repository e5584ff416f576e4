package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/session"
)

const million = 1_000_000

// depths are the other jobs in the table beside those that are claimed.
var depths = []struct {
	key     string
	name    string
	x       float64 // waiting jobs: the position in the plot, or 0
	n       int
	prepare func(ctx context.Context, db admin.Database, n int) error
}{
	{"empty", "nothing else", 1000, 0, nil},
	{"10k", "%s waiting", 10_000, 10_000, waiting},
	{"1M", "%s waiting", million, million, waiting},
	{"4M", "%s waiting", 4 * million, 4 * million, waiting},
	{"future", "%s of the future", 0, million, func(ctx context.Context, db admin.Database, n int) error {
		return stock(ctx, db, n, dibs.NewJob{Delay: time.Hour})
	}},
	{"blocked", "%s blocked in one group", 0, million, func(ctx context.Context, db admin.Database, n int) error {
		return stock(ctx, db, n, dibs.NewJob{Group: "one"})
	}},
	{"paused", "%s in a paused queue", 0, million, func(ctx context.Context, db admin.Database, n int) error {
		yes := true
		if _, err := db.ChangeQueue(ctx, "paused", dibs.QueueChange{Paused: &yes}.Apply); err != nil {
			return err
		}
		return stock(ctx, db, n, dibs.NewJob{Queue: "paused"})
	}},
	{"running", "%s running", 0, 20_000, running},
}

func waiting(ctx context.Context, db admin.Database, n int) error {
	return stock(ctx, db, n, dibs.NewJob{})
}

func running(ctx context.Context, db admin.Database, n int) error {
	if err := waiting(ctx, db, n); err != nil {
		return err
	}
	for n > 0 {
		jobs, err := db.Claim(ctx, dibs.ClaimRequest{Worker: "other", N: min(n, dibs.MaxBatch), Lease: dibs.MaxLease})
		if err != nil {
			return err
		}
		n -= len(jobs)
	}
	return nil
}

// Depth is W6: the time of one claim of 100 jobs beside different other jobs.
func (b *Bench) Depth() Workload {
	w := Workload{
		ID: "W6", Name: "claim of 100",
		Rows:  []Row{{Key: "worst", Name: "slowest : beside nothing else"}},
		Conns: conns(1, b.Pool),
		Run:   func(ctx context.Context, b *Bench, p Product) (Measured, error) { return b.depth(ctx, p) },
	}
	for _, d := range depths {
		name := d.name
		if d.n > 0 {
			name = fmt.Sprintf(name, thousands(b.Count(d.n)))
			w.Takes += timeFor(b.Count(d.n), 60_000)
		}
		w.Rows = append(w.Rows, Row{Key: d.key, Name: "p50 beside " + name, Unit: "ms", X: d.x})
		w.Takes += timeFor(b.depthClaims(), 150)
	}
	return w
}

func (b *Bench) depth(ctx context.Context, p Product) (Measured, error) {
	m := Measured{Figures: map[string]float64{}}
	for _, d := range depths {
		var took time.Duration
		_, err := b.withDibs(ctx, p, func(o *opened, db admin.Database) (_ Measured, err error) {
			if d.n > 0 {
				err = d.prepare(ctx, db, b.Count(d.n))
			}
			if err == nil {
				took, err = b.claimBeside(ctx, o, db)
			}
			return Measured{}, err
		})
		if err != nil {
			return Measured{}, fmt.Errorf("beside %s: %w", d.key, err)
		}
		m.Figures[d.key] = ms(took)
		m.Figures["worst"] = max(m.Figures["worst"], ms(took)/m.Figures["empty"])
	}
	return m, nil
}

const depthBatch = 100

// depthClaims is the number of claims for one median.
func (b *Bench) depthClaims() int { return max(int(300*b.Scale), 9) }

// claimBeside measures the median time of a claim beside the jobs already in the table.
func (b *Bench) claimBeside(ctx context.Context, o *opened, db admin.Database) (time.Duration, error) {
	if err := stock(ctx, db, 10*depthBatch, dibs.NewJob{}); err != nil {
		return 0, err
	}
	if err := b.settle(ctx, o.place); err != nil {
		return 0, err
	}
	var times []time.Duration
	for range b.depthClaims() {
		start := time.Now()
		jobs, err := db.Claim(ctx, dibs.ClaimRequest{Worker: "bench", N: depthBatch})
		times = append(times, time.Since(start))
		if err == nil && len(jobs) < depthBatch {
			err = fmt.Errorf("a claim found %d jobs", len(jobs))
		}
		if err == nil {
			err = complete(ctx, db, jobs)
		}
		if err == nil {
			err = stock(ctx, db, depthBatch, dibs.NewJob{})
		}
		if err != nil {
			return 0, err
		}
	}
	return quantile(times, 0.5), nil
}

// settle does at once what PostgreSQL would soon do in the background after the inserts.
func (b *Bench) settle(ctx context.Context, place Place) (err error) {
	if b.Server == nil {
		return nil
	}
	conn, err := session.Connect(ctx, place.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	schema := place.Schema
	if schema == "" {
		schema = "dibs"
	}
	var tables string
	const list = "select string_agg(format('%I.%I', schemaname, tablename), ', ') from pg_tables where schemaname = $1"
	if err := conn.QueryRow(ctx, list, schema).Scan(&tables); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "vacuum analyze "+tables); err != nil {
		return err
	}
	b.Server.Checkpoint(ctx)
	return nil
}

// stock enqueues n copies of a job.
func stock(ctx context.Context, db admin.Database, n int, like dibs.NewJob) error {
	like.Kind, like.Payload = MailKind, letter
	chunk := min(n, dibs.MaxBatch)
	jobs := make([]dibs.NewJob, chunk)
	for i := range jobs {
		jobs[i] = like
	}
	return Share(ctx, Enqueuers, (n+chunk-1)/chunk, func(ctx context.Context, i int) error {
		_, err := db.Enqueue(ctx, jobs[:min(chunk, n-i*chunk)])
		return err
	})
}
