package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs/internal/session"
)

// Snapshot is W5: a closed loop while another session is idle in a transaction with an
// older snapshot, so that no dead row can be removed.
func (b *Bench) Snapshot() Workload {
	window := b.window()
	edge := round(loopEdge * window)
	return Workload{
		ID: "W5", Name: "held snapshot, " + round(LoopWindows*window) + ", 3 priorities",
		Rows: []Row{
			{Key: "last", Name: "last " + edge, Unit: "jobs/s"},
			{Key: "first", Name: "first " + edge, Unit: "jobs/s"},
			{Key: "ratio", Name: "last : first"},
		},
		Postgres: true, Conns: conns(1, b.Pool), Takes: LoopWindows*window + time.Second,
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) { return b.snapshot(ctx, o) })
		},
	}
}

const (
	// LoopTime is the duration of W5 at scale 1. It consists of LoopWindows windows.
	LoopTime    = 90 * time.Second
	LoopWindows = 30

	shortWindow = 50 * time.Millisecond // least duration of a window
	loopEdge    = 5                     // number of windows in the first and in the last 15 s
	loopChunk   = 1000                  // number of jobs in one enqueue
	loopJobs    = 10_000                // number of jobs enqueued and not completed
)

func (b *Bench) window() time.Duration { return max(b.duration(LoopTime)/LoopWindows, shortWindow) }

func (b *Bench) snapshot(ctx context.Context, o *opened) (Measured, error) {
	release, err := holdSnapshot(ctx, o.place.URL)
	if err != nil {
		return Measured{}, err
	}
	defer release()
	window := b.window()
	counts, err := loop(ctx, o, b.Handlers, window)
	if err != nil {
		return Measured{}, err
	}
	m := Measured{Figures: map[string]float64{}}
	var first, last float64
	for i, n := range counts {
		rate := float64(n) / window.Seconds()
		m.Series = append(m.Series, rate)
		if i < loopEdge {
			first += rate / loopEdge
		} else if i >= LoopWindows-loopEdge {
			last += rate / loopEdge
		}
	}
	m.Figures["first"], m.Figures["last"] = first, last
	if first > 0 {
		m.Figures["ratio"] = last / first
	}
	return m, nil
}

// holdSnapshot opens a transaction whose snapshot is the present database.
func holdSnapshot(ctx context.Context, url string) (release func(), err error) {
	conn, err := session.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	release = func() { _ = conn.Close(context.WithoutCancel(ctx)) /* a transaction that only reads loses nothing */ }
	// The first statement that reads takes the snapshot.
	_, err = conn.Exec(ctx, "begin isolation level repeatable read; select count(*) from pg_class")
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// loop keeps about loopJobs jobs in the queue of a worker, and returns how many it
// completed in each window.
func loop(ctx context.Context, s System, handlers int, window time.Duration) ([]int64, error) {
	var counts [LoopWindows]atomic.Int64
	var openJobs atomic.Int64
	var start atomic.Pointer[time.Time] // nil before the first window
	room := make(chan struct{}, 1)
	stop, err := s.Work(ctx, Work{Handlers: handlers, Finished: func(string) {
		if began := start.Load(); began != nil {
			if i := int(time.Since(*began) / window); i < LoopWindows {
				counts[i].Add(1)
			}
		}
		if openJobs.Add(-1) <= loopJobs-loopChunk {
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
		jobs[i].Priority = i % 3
	}
	openJobs.Store(loopChunk)
	if err := s.Enqueue(ctx, jobs); err != nil {
		return nil, errors.Join(err, stop())
	}
	for openJobs.Load() > 0 {
		select {
		case <-room:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), stop())
		}
	}
	now := time.Now()
	start.Store(&now)
	end := now.Add(LoopWindows * window)
	err = Share(ctx, 2, 2, func(ctx context.Context, _ int) error { return feed(ctx, s, jobs, &openJobs, room, end) })
	result := make([]int64, LoopWindows)
	for i := range counts {
		result[i] = counts[i].Load()
	}
	return result, errors.Join(err, stop())
}

// feed enqueues the jobs whenever the loop has room for them, until the end.
func feed(ctx context.Context, s System, jobs []Job, openJobs *atomic.Int64, room <-chan struct{}, end time.Time) error {
	ended := time.After(time.Until(end))
	for time.Now().Before(end) {
		if n := int64(len(jobs)); openJobs.Load()+n <= loopJobs {
			openJobs.Add(n)
			if err := s.Enqueue(ctx, jobs); err != nil {
				return err
			}
			continue
		}
		select {
		case <-room:
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
