package workload

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/dibs-queue/dibs/admin"
)

// LivesCallers is the number of goroutines of W8.
const LivesCallers = 1000

// Lives is W8: many goroutines take single jobs through enqueue, claim and finish.
func (b *Bench) Lives() Workload {
	return Workload{
		ID: "W8", Name: "enqueue, claim, finish singly, " + thousands(LivesCallers) + " goroutines",
		Rows: throughput(), Conns: conns(1, b.Pool), Takes: b.repeatedTakes(),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withDibs(ctx, p, func(o *opened, db admin.Database) (Measured, error) {
				return b.Repeated(ctx, LivesCallers, func(ctx context.Context) error {
					if err := o.Enqueue(ctx, letters(1)); err != nil {
						return err
					}
					return UntilOne(ctx, func() (int, error) { return lifecycle(ctx, db, 1) })
				})
			})
		},
	}
}

// UntilOne repeats f until it has done a job. For a moment other claimers may hold all
// jobs.
func UntilOne(ctx context.Context, f func() (int, error)) error {
	for ctx.Err() == nil {
		if n, err := f(); err != nil || n > 0 {
			return err
		}
		runtime.Gosched()
	}
	return ctx.Err()
}

// crowds are the numbers of claimers, in all processes together.
var crowds = []int{16, 200, 2000}

const (
	crowdProcesses = 4
	crowdPool      = 12 // largest pool of each process, which leaves free some of PostgreSQL's default 100 connections
	crowdJobs      = 50_000
)

// Crowd is W9: growing numbers of claimers of single jobs, over 4 processes.
func (b *Bench) Crowd() Workload {
	w := Workload{
		ID: "W9", Name: fmt.Sprintf("claimers of single jobs, %d processes", crowdProcesses),
		Rows:  []Row{{Key: "ratio", Name: "2,000 claimers : the best"}},
		Conns: conns(crowdProcesses, min(b.Pool, crowdPool)), Takes: time.Duration(len(crowds)) * (timeFor(b.Count(crowdJobs), 10_000) + time.Second),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) { return b.crowd(ctx, p) },
	}
	for _, n := range crowds {
		w.Rows = append(w.Rows, Row{Key: fmt.Sprint(n), Name: thousands(n) + " claimers", Unit: "jobs/s"})
	}
	return w
}

func (b *Bench) crowd(ctx context.Context, p Product) (Measured, error) {
	m := Measured{Figures: map[string]float64{}}
	var rate, best float64
	for _, n := range crowds {
		_, err := b.In(ctx, func(place Place) (_ Measured, err error) {
			rate, err = b.claimRate(ctx, p, place, n)
			return Measured{}, err
		})
		if err != nil {
			return Measured{}, fmt.Errorf("%d claimers: %w", n, err)
		}
		m.Figures[fmt.Sprint(n)] = rate
		best = max(best, rate)
	}
	m.Figures["ratio"] = rate / best
	return m, nil
}

// claimRate returns the rate at which this number of claimers completes a stock of jobs.
func (b *Bench) claimRate(ctx context.Context, p Product, place Place, claimers int) (rate float64, err error) {
	n := b.Count(crowdJobs)
	if err := b.fillAt(ctx, p, place, n); err != nil {
		return 0, err
	}
	var children []*worker
	defer func() {
		for _, c := range children {
			_, ended := c.end()
			err = errors.Join(err, ended)
		}
	}()
	for i := range crowdProcesses {
		c, err := b.spawn(ctx, fmt.Sprintf("claimers-%d", i+1), order{System: p.Name, Place: place, Pool: min(b.Pool, crowdPool), Claimers: claimers / crowdProcesses})
		if err != nil {
			return 0, err
		}
		children = append(children, c)
	}
	start := time.Now()
	for _, c := range children {
		if err := c.begin(ctx); err != nil {
			return 0, err
		}
	}
	if err := await(ctx, n, children...); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(start).Seconds(), nil
}
