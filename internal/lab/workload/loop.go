package workload

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-queue/dibs/internal/session"
)

// ClosedLoop is W5: whenever jobs end, as many are enqueued.
// With held, another session has an open transaction with an older snapshot: no dead row can be removed.
func (b *Bench) ClosedLoop(held bool) Workload {
	window := b.window()
	edge := round(loopEdge * window)
	name := "closed loop, " + round(LoopWindows*window) + ", 3 priorities"
	if held {
		name += BesideSnapshot
	}
	return Workload{
		ID: "W5", Name: name,
		Rows: []Row{
			{Key: "last", Name: "last " + edge, Unit: "jobs/s"},
			{Key: "first", Name: "first " + edge, Unit: "jobs/s"},
			{Key: "ratio", Name: "last : first"},
		},
		Postgres: true, Conns: conns(1, b.Pool), Takes: b.duration(loopWarm) + LoopWindows*window + time.Second,
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) { return b.closedLoop(ctx, o, held) })
		},
	}
}

// BesideSnapshot ends the name of the W5 that holds a snapshot.
const BesideSnapshot = ", beside a held snapshot"

const (
	// LoopTime is the duration of W5 at scale 1. It consists of LoopWindows windows.
	LoopTime    = 90 * time.Second
	LoopWindows = 30

	shortWindow = 50 * time.Millisecond // least duration of a window
	loopWarm    = time.Second           // time between the end of the first job and the first window
	loopEdge    = 5                     // number of windows in the first and in the last 15 s
	loopChunk   = 1000                  // number of jobs in one enqueue
	loopJobs    = 10_000                // number of jobs enqueued and not completed
)

func (b *Bench) window() time.Duration { return max(b.duration(LoopTime)/LoopWindows, shortWindow) }

func (b *Bench) closedLoop(ctx context.Context, o *opened, held bool) (Measured, error) {
	if held {
		release, err := holdSnapshot(ctx, o.place.URL)
		if err != nil {
			return Measured{}, err
		}
		defer release()
	}
	window := b.window()
	counts, err := b.loop(ctx, o, window)
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
// completed in each window. The first window begins when the loop has run for a second.
func (b *Bench) loop(ctx context.Context, s System, window time.Duration) ([]int64, error) {
	var counts [LoopWindows]atomic.Int64
	var openJobs atomic.Int64
	var start atomic.Pointer[time.Time] // nil before the first window
	room, begun, begin := make(chan struct{}, 1), make(chan struct{}), sync.Once{}
	stop, err := s.Work(ctx, Work{Handlers: b.Handlers, Finished: func(string) {
		begin.Do(func() { close(begun) })
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
		jobs[i].Priority = 3 * i / loopChunk
	}
	ended := make(chan struct{})
	group, groupCtx := errgroup.WithContext(ctx)
	for range 2 {
		group.Go(func() error { return feed(groupCtx, s, jobs, &openJobs, room, ended) })
	}
	select {
	case <-begun:
	case <-groupCtx.Done():
	}
	if sleep(groupCtx, b.duration(loopWarm)) == nil {
		now := time.Now()
		start.Store(&now)
		_ = sleep(groupCtx, LoopWindows*window) // an error is the group's or the context's
	}
	close(ended)
	err = group.Wait()
	result := make([]int64, LoopWindows)
	for i := range counts {
		result[i] = counts[i].Load()
	}
	return result, errors.Join(err, ctx.Err(), stop())
}

// feed enqueues the jobs whenever the loop has room for them, until the end.
func feed(ctx context.Context, s System, jobs []Job, openJobs *atomic.Int64, room <-chan struct{}, ended <-chan struct{}) error {
	for {
		select {
		case <-ended:
			return nil
		default:
		}
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
}
