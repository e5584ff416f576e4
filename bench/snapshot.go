package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// snapshotWorkloads are W5: a closed loop while another session idles in a
// transaction with a snapshot from before, so that no dead row can be removed.
func snapshotWorkloads() []workload {
	return []workload{{
		id: "W5", name: "held snapshot, 90 s, 3 priorities",
		rows: []row{
			{key: "last", name: "last 15 s", unit: "jobs/s", target: "30k"},
			{key: "first", name: "first 15 s", unit: "jobs/s"},
			{key: "ratio", name: "last : first", target: "0.9"},
		},
		contenders: []contender{
			{"dibs", snapshot(onPostgres)},
			{"River", snapshot(asRiver)},
		},
	}}
}

const (
	loopTime    = 90 * time.Second
	loopWindows = 30
	shortWindow = 100 * time.Millisecond // however small the scale
	loopEdge    = 5                      // windows that are the first and the last 15 s
	loopChunk   = 1000                   // jobs of one enqueue
	loopJobs    = 10_000                 // that are enqueued and not completed
)

func snapshot(p product) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (measured, error) {
		s, err := b.open(ctx, p)
		if err != nil {
			return measured{}, err
		}
		defer s.close()
		release, err := holdSnapshot(ctx, s.url)
		if err != nil {
			return measured{}, err
		}
		defer release()
		window := max(b.duration(loopTime)/loopWindows, shortWindow)
		counts, err := loop(ctx, s, b.handlers, window)
		if err != nil {
			return measured{}, err
		}
		m := measured{figures: map[string]float64{}}
		var first, last float64
		for i, n := range counts {
			rate := float64(n) / window.Seconds()
			m.series = append(m.series, rate)
			if i < loopEdge {
				first += rate / loopEdge
			} else if i >= loopWindows-loopEdge {
				last += rate / loopEdge
			}
		}
		m.figures["first"], m.figures["last"] = first, last
		if first > 0 {
			m.figures["ratio"] = last / first
		}
		return m, nil
	}
}

// holdSnapshot opens a transaction that sees the database as it is now.
func holdSnapshot(ctx context.Context, url string) (release func(), err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	release = func() { _ = conn.Close(context.WithoutCancel(ctx)) /* what is read is nothing to lose */ }
	// A snapshot is taken by the first statement that reads.
	_, err = conn.Exec(ctx, "begin isolation level repeatable read; select count(*) from pg_class")
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// loop keeps about loopJobs jobs in the queue of a worker, and returns how many it
// completed in each window.
func loop(ctx context.Context, s system, handlers int, window time.Duration) ([]int64, error) {
	var counts [loopWindows]atomic.Int64
	var open atomic.Int64
	room := make(chan struct{}, 1)
	start := time.Now()
	stop, err := s.work(ctx, work{handlers: handlers, finished: func(string) {
		if i := int(time.Since(start) / window); i < loopWindows {
			counts[i].Add(1)
		}
		if open.Add(-1) <= loopJobs-loopChunk {
			select {
			case room <- struct{}{}:
			default:
			}
		}
	}})
	if err != nil {
		return nil, err
	}
	jobs := letters(loopChunk)
	for i := range jobs {
		jobs[i].priority = i % 3
	}
	end := start.Add(loopWindows * window)
	err = share(ctx, 2, 2, func(ctx context.Context, _ int) error { return feed(ctx, s, jobs, &open, room, end) })
	result := make([]int64, loopWindows)
	for i := range counts {
		result[i] = counts[i].Load()
	}
	return result, errors.Join(err, stop())
}

// feed enqueues the jobs whenever there is room for them, until the end.
func feed(ctx context.Context, s system, jobs []job, open *atomic.Int64, room <-chan struct{}, end time.Time) error {
	over := time.After(time.Until(end))
	for time.Now().Before(end) {
		if n := int64(len(jobs)); open.Load()+n <= loopJobs {
			open.Add(n)
			if err := s.enqueue(ctx, jobs); err != nil {
				return err
			}
			continue
		}
		select {
		case <-room:
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
