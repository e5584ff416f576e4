package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
)

const million = 1_000_000

// depths are what may stand in the table beside the jobs that are claimed.
var depths = []struct {
	key     string
	name    string
	x       float64 // jobs that wait
	n       int
	prepare func(ctx context.Context, db dibs.Database, n int) error // nil: they just wait
}{
	{"empty", "nothing else", 1000, 0, nil},
	{"10k", "10,000 waiting", 10_000, 10_000, nil},
	{"1M", "1,000,000 waiting", million, million, nil},
	{"4M", "4,000,000 waiting", 4 * million, 4 * million, nil},
	{"future", "1,000,000 of the future", 0, million, func(ctx context.Context, db dibs.Database, n int) error {
		return stock(ctx, db, n, dibs.NewJob{Delay: time.Hour})
	}},
	{"blocked", "1,000,000 blocked in one group", 0, million, func(ctx context.Context, db dibs.Database, n int) error {
		return stock(ctx, db, n, dibs.NewJob{Group: "one"})
	}},
	{"paused", "1,000,000 in a paused queue", 0, million, func(ctx context.Context, db dibs.Database, n int) error {
		yes := true
		if _, err := db.SetQueue(ctx, "paused", dibs.QueueChange{Paused: &yes}); err != nil {
			return err
		}
		return stock(ctx, db, n, dibs.NewJob{Queue: "paused"})
	}},
	{"running", "20,000 running", 0, 20_000, func(ctx context.Context, db dibs.Database, n int) error {
		if err := stock(ctx, db, n, dibs.NewJob{}); err != nil {
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
	}},
}

// depthWorkloads are W6: the time of one claim of 100 jobs, whatever else the table holds.
func depthWorkloads() []workload {
	w := workload{
		id: "W6", name: "claim of 100",
		rows:       []row{{key: "worst", name: "slowest : nothing else", target: "2"}},
		contenders: []contender{{"dibs", depth}},
	}
	for _, d := range depths {
		w.rows = append(w.rows, row{key: d.key, name: "p50 beside " + d.name, unit: "ms", x: d.x})
	}
	return []workload{w}
}

func depth(ctx context.Context, b *bench) (measured, error) {
	m := measured{figures: map[string]float64{}}
	for _, d := range depths {
		took, err := b.claimBeside(ctx, d.n, d.prepare)
		if err != nil {
			return measured{}, fmt.Errorf("beside %s: %w", d.name, err)
		}
		m.figures[d.key] = ms(took)
		m.figures["worst"] = max(m.figures["worst"], ms(took)/m.figures["empty"])
	}
	return m, nil
}

const (
	depthBatch  = 100
	depthClaims = 300
)

// claimBeside is the median time of a claim in a database of its own.
func (b *bench) claimBeside(ctx context.Context, n int, prepare func(context.Context, dibs.Database, int) error) (time.Duration, error) {
	o, db, err := b.openDibs(ctx)
	if err != nil {
		return 0, err
	}
	defer o.close()
	if n > 0 {
		if prepare == nil {
			prepare = func(ctx context.Context, db dibs.Database, n int) error { return stock(ctx, db, n, dibs.NewJob{}) }
		}
		if err := prepare(ctx, db, b.count(n)); err != nil {
			return 0, err
		}
	}
	if err := stock(ctx, db, 10*depthBatch, dibs.NewJob{}); err != nil {
		return 0, err
	}
	if err := b.settle(ctx, o.url); err != nil {
		return 0, err
	}
	var times []time.Duration
	for range b.count(depthClaims) {
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

// settle does what the server would do in the background soon after so many inserts.
func (b *bench) settle(ctx context.Context, url string) error {
	for _, statement := range []string{"vacuum analyze", "checkpoint"} {
		if err := execute(ctx, url, statement); err != nil {
			return err
		}
	}
	return nil
}

// stock enqueues n jobs like one.
func stock(ctx context.Context, db dibs.Store, n int, like dibs.NewJob) error {
	like.Kind, like.Payload = mailKind, letter
	chunk := min(n, dibs.MaxBatch)
	jobs := make([]dibs.NewJob, chunk)
	for i := range jobs {
		jobs[i] = like
	}
	return share(ctx, enqueuers, (n+chunk-1)/chunk, func(ctx context.Context, i int) error {
		_, err := db.Enqueue(ctx, jobs[:min(chunk, n-i*chunk)])
		return err
	})
}
