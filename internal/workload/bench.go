package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Bench is where and how workloads are measured.
type Bench struct {
	Scale    float64 // multiplies the number of jobs and the time of every workload
	Pool     int     // connections of each pool
	Handlers int     // that a worker runs at once
	SQLite   bool    // else PostgreSQL
	Dir      string  // for what processes write to stderr

	Place   func(context.Context) (Place, error) // makes an empty place for one measurement
	Server  *Server                              // nil on SQLite
	Command func() (*exec.Cmd, error)            // a process of this program that calls Serve
	Launch  func(*exec.Cmd) error                // starts it

	// Observe, if not nil, is called before each measured part, and end after it. What it
	// costs is part of the figures.
	Observe func(context.Context) (end func() error, err error)
}

// Place is where jobs are kept during one measurement.
type Place struct {
	URL    string // of the PostgreSQL database, or the path of a SQLite file
	SQLite bool
	Schema string // PostgreSQL only; "" is the system's own choice

	Drop func(context.Context) error `json:"-"` // takes away all that is there
}

// InFolder makes SQLite files, each in a folder of its own in dir.
func InFolder(dir string) func(context.Context) (Place, error) {
	return func(context.Context) (Place, error) {
		own, err := os.MkdirTemp(dir, "dibs-bench-")
		return Place{
			URL: filepath.Join(own, "bench.db"), SQLite: true,
			Drop: func(context.Context) error { return os.RemoveAll(own) },
		}, err
	}
}

// fewest is the least number of jobs: some for each process of W9.
const fewest = 40

// Count is n jobs at the run's scale.
func (b *Bench) Count(n int) int { return max(int(float64(n)*b.Scale), fewest) }

// duration is d at the run's scale.
func (b *Bench) duration(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*b.Scale), 300*time.Millisecond)
}

const (
	patience     = 30 * time.Minute // with one measurement
	dropPatience = 5 * time.Minute
)

// Once makes one measurement, within limits.
func (b *Bench) Once(ctx context.Context, measure func(context.Context) (Measured, error)) (Measured, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no end within %v", patience))
	defer cancel()
	m, err := measure(ctx)
	if err != nil && context.Cause(ctx) != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return m, err
}

// In has f measure in an empty place, which it drops.
func (b *Bench) In(ctx context.Context, f func(Place) (Measured, error)) (Measured, error) {
	place, err := b.Place(ctx)
	if err != nil {
		return Measured{}, err
	}
	m, err := f(place)
	return m, errors.Join(err, drop(ctx, place))
}

// with has f measure with a system in an empty place.
func (b *Bench) with(ctx context.Context, p Product, poll bool, f func(*opened) (Measured, error)) (Measured, error) {
	return b.In(ctx, func(place Place) (Measured, error) {
		s, err := p.Attach(ctx, place, b.Pool, poll)
		if err != nil {
			return Measured{}, fmt.Errorf("open %s: %w", p.Name, err)
		}
		defer s.Close()
		return f(&opened{s, place})
	})
}

// opened is a system in a place of its own.
type opened struct {
	System
	place Place
}

func drop(ctx context.Context, p Place) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropPatience)
	defer cancel()
	return p.Drop(ctx)
}

// Timed runs f, which does as many jobs as it returns, and says how fast and at what cost.
func (b *Bench) Timed(ctx context.Context, f func() (int, error)) (Measured, error) {
	end := func() error { return nil }
	if b.Observe != nil {
		var err error
		if end, err = b.Observe(ctx); err != nil {
			return Measured{}, err
		}
	}
	before, err := b.read(ctx)
	if err != nil {
		return Measured{}, errors.Join(err, end())
	}
	start := time.Now()
	n, err := f()
	took := time.Since(start)
	if err = errors.Join(err, end()); err != nil {
		return Measured{}, err
	}
	after, err := b.read(ctx)
	if err != nil {
		return Measured{}, err
	}
	m := Measured{Figures: map[string]float64{
		"rate":   float64(n) / took.Seconds(),
		"allocs": float64(after.allocs-before.allocs) / float64(n),
	}}
	if b.Server != nil {
		m.Figures["wal"] = (after.wal - before.wal) / float64(n)
		m.Figures["writes"] = 1000 * (after.writes - before.writes) / float64(n)
	}
	if after.server > 0 {
		m.Figures["server"] = micros(after.server-before.server) / float64(n)
	}
	if after.own > 0 {
		m.Figures["client"] = micros(after.own-before.own) / float64(n)
	}
	return m, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// reading is what the server and this process have used so far.
type reading struct {
	server, own time.Duration // of CPU; 0 where it cannot be known
	wal, writes float64       // bytes of log, and transactions that wrote
	allocs      uint64
}

func (b *Bench) read(ctx context.Context) (r reading, err error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.own, r.server, r.allocs = processCPU(os.Getpid()), b.Server.cpu(), m.Mallocs
	if b.Server != nil {
		r.wal, r.writes, err = b.Server.written(ctx)
	}
	return r, err
}

// Repeated measures f called by so many callers again and again, once every
// connection is open.
func (b *Bench) Repeated(ctx context.Context, callers int, f func(context.Context) error) (Measured, error) {
	if _, err := calls(ctx, callers, b.duration(repeatedWarm), f); err != nil {
		return Measured{}, err
	}
	return b.Timed(ctx, func() (int, error) { return calls(ctx, callers, b.duration(repeatedTime), f) })
}

const (
	repeatedWarm = 500 * time.Millisecond
	repeatedTime = 5 * time.Second
)

// calls has n goroutines call f again and again for d, and returns how many calls there were.
func calls(ctx context.Context, n int, d time.Duration, f func(context.Context) error) (int, error) {
	end := time.Now().Add(d)
	group, ctx := errgroup.WithContext(ctx)
	var sum atomic.Int64
	for range n {
		group.Go(func() error {
			count := int64(0)
			defer func() { sum.Add(count) }()
			for time.Now().Before(end) {
				if err := f(ctx); err != nil {
					return err
				}
				count++
			}
			return nil
		})
	}
	err := group.Wait()
	return int(sum.Load()), err
}

// Share has n goroutines call f with the numbers below total, each once.
func Share(ctx context.Context, n, total int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(n)
	for i := range total {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// ClaimerCount is how many claimers there are where no worker claims.
const ClaimerCount = 4

// Claimers has k goroutines call f, which says how many jobs it did, until n are done.
func Claimers(ctx context.Context, k, n int, f func(context.Context) (int, error)) error {
	var left atomic.Int64
	left.Store(int64(n))
	group, ctx := errgroup.WithContext(ctx)
	for range k {
		group.Go(func() error {
			for left.Load() > 0 {
				did, err := f(ctx)
				if err != nil {
					return err
				}
				left.Add(-int64(did))
			}
			return nil
		})
	}
	return group.Wait()
}

// sleep waits, but not when ctx has ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
