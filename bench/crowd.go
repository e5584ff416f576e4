package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// singleWorkloads are W8: whole lives of jobs by single calls from many goroutines.
func singleWorkloads() []workload {
	return []workload{{
		id: "W8", name: "enqueue, claim, finish singly, 1,000 goroutines",
		rows:       throughput("40k"),
		contenders: []contender{{"dibs", singleLives}, {bare, onBare(bareLives)}},
	}}
}

const lives = 1000 // goroutines

func singleLives(ctx context.Context, b *bench) (measured, error) {
	o, db, err := b.openDibs(ctx)
	if err != nil {
		return measured{}, err
	}
	defer o.close()
	return b.repeated(ctx, lives, func(ctx context.Context) error {
		if err := o.enqueue(ctx, letters(1)); err != nil {
			return err
		}
		return untilOne(ctx, func() (int, error) { return lifecycle(ctx, db, 1) })
	})
}

// untilOne repeats f until it has had its job: others may hold all that there are
// for a moment.
func untilOne(ctx context.Context, f func() (int, error)) error {
	for ctx.Err() == nil {
		if n, err := f(); err != nil || n > 0 {
			return err
		}
		runtime.Gosched()
	}
	return ctx.Err()
}

func bareLives(ctx context.Context, b *bench, pool *pgxpool.Pool) (measured, error) {
	return b.repeated(ctx, lives, func(ctx context.Context) error {
		if _, err := pool.Exec(ctx, bareInsert, barePayload); err != nil {
			return err
		}
		return untilOne(ctx, func() (int, error) {
			tag, err := pool.Exec(ctx, bareDelete, 1)
			return int(tag.RowsAffected()), err
		})
	})
}

// crowds are how many claimers there are in all processes together.
var crowds = []int{16, 200, 2000}

const (
	crowdProcesses = 4
	crowdPool      = 12 // connections of each process; four of them leave some of Debian's 100
)

// crowdWorkloads are W9: ever more claimers of one job each, over 4 processes.
func crowdWorkloads() []workload {
	w := workload{
		id: "W9", name: "claimers of single jobs, 4 processes",
		rows:       []row{{key: "ratio", name: "2,000 claimers : the best", target: "0.7"}},
		contenders: []contender{{"dibs", crowd}},
	}
	for _, n := range crowds {
		w.rows = append(w.rows, row{key: fmt.Sprint(n), name: fmt.Sprintf("%d claimers", n), unit: "jobs/s"})
	}
	return []workload{w}
}

func crowd(ctx context.Context, b *bench) (measured, error) {
	m := measured{figures: map[string]float64{}}
	var rate, best float64
	for _, n := range crowds {
		var err error
		if rate, err = b.claimBy(ctx, n); err != nil {
			return measured{}, fmt.Errorf("%d claimers: %w", n, err)
		}
		m.figures[fmt.Sprint(n)] = rate
		best = max(best, rate)
	}
	m.figures["ratio"] = rate / best
	return m, nil
}

// claimBy is the rate at which so many claimers do a stock of jobs.
func (b *bench) claimBy(ctx context.Context, claimers int) (rate float64, err error) {
	url, drop, err := b.database(ctx)
	if err != nil {
		return 0, err
	}
	defer drop()
	n := b.count(50_000)
	if err := b.fillAt(ctx, onPostgres, url, n); err != nil {
		return 0, err
	}
	var children []*child
	defer func() {
		for _, c := range children {
			_, ended := c.end()
			err = errors.Join(err, ended)
		}
	}()
	for range crowdProcesses {
		c, err := b.spawn(ctx, order{System: onPostgres.name, URL: url, Pool: crowdPool, Claimers: claimers / crowdProcesses})
		if err != nil {
			return 0, err
		}
		children = append(children, c)
	}
	start := time.Now()
	for _, c := range children {
		if err := c.begin(); err != nil {
			return 0, err
		}
	}
	if err := await(ctx, n, children...); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(start).Seconds(), nil
}
