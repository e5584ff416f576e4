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

// Bench holds the settings of all measurements.
type Bench struct {
	Scale    float64 // multiplies the number of jobs and the time of every workload
	Pool     int     // connections of each pool
	Handlers int     // handlers that a worker runs at once
	SQLite   bool    // false: PostgreSQL
	Dir      string  // folder for the processes' stderr

	Place   func(context.Context) (Place, error) // creates an empty place for one measurement
	Server  *Server                              // nil without PostgreSQL
	Command func() (*exec.Cmd, error)            // returns the command of a process that calls Serve
	Launch  func(*exec.Cmd) error                // starts the command

	// Observe, if not nil, is called before each measured part, and end after it. The
	// figures include its cost.
	Observe func(context.Context) (end func() error, err error)
}

// Place is the database that holds the jobs of one measurement.
type Place struct {
	URL    string // URL of the PostgreSQL database, data source of the MariaDB database, or path of the SQLite file
	SQLite bool
	Prefix string // MariaDB only, and never empty there
	Schema string // PostgreSQL only; "": the system's default

	Drop func(context.Context) error `json:"-"` // deletes the database or the file
}

// InFolder creates SQLite files, each in a folder of its own in dir.
func InFolder(dir string) func(context.Context) (Place, error) {
	return func(context.Context) (Place, error) {
		own, err := os.MkdirTemp(dir, "dibs-bench-")
		return Place{
			URL: filepath.Join(own, "bench.db"), SQLite: true,
			Drop: func(context.Context) error { return os.RemoveAll(own) },
		}, err
	}
}

// minJobs gives each process of W9 some jobs, however small the scale.
const minJobs = 40

// Count scales a number of jobs.
func (b *Bench) Count(n int) int { return max(int(float64(n)*b.Scale), minJobs) }

// duration scales a time.
func (b *Bench) duration(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*b.Scale), 300*time.Millisecond)
}

const (
	patience     = 30 * time.Minute // time limit of one measurement
	dropPatience = 5 * time.Minute
)

// Once makes one measurement, with a time limit.
func (b *Bench) Once(ctx context.Context, measure func(context.Context) (Measured, error)) (Measured, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no end within %v", patience))
	defer cancel()
	m, err := measure(ctx)
	if err != nil && context.Cause(ctx) != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return m, err
}

// In calls f with an empty place, which it drops afterwards.
func (b *Bench) In(ctx context.Context, f func(Place) (Measured, error)) (Measured, error) {
	place, err := b.Place(ctx)
	if err != nil {
		return Measured{}, err
	}
	m, err := f(place)
	return m, errors.Join(err, drop(ctx, place))
}

// withSystem calls f with a system in an empty place.
func (b *Bench) withSystem(ctx context.Context, p Product, noListen bool, f func(*opened) (Measured, error)) (Measured, error) {
	return b.In(ctx, func(place Place) (Measured, error) {
		s, err := b.open(ctx, p, place, noListen)
		if err != nil {
			return Measured{}, err
		}
		defer s.Close()
		return f(&opened{s, place})
	})
}

// open creates the tables of a system in an empty place, and opens it.
func (b *Bench) open(ctx context.Context, p Product, place Place, noListen bool) (s System, err error) {
	if p.Create != nil {
		err = p.Create(ctx, place)
	}
	if err == nil {
		s, err = p.Attach(ctx, place, b.Pool, noListen)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", p.Name, err)
	}
	return s, nil
}

// opened is a system with its place.
type opened struct {
	System
	place Place
}

func drop(ctx context.Context, p Place) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropPatience)
	defer cancel()
	return p.Drop(ctx)
}

// Timed measures the rate and the cost of f, which returns the number of jobs that it did.
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
		m.Figures["wal"] = (after.walBytes - before.walBytes) / float64(n)
		m.Figures["writes"] = 1000 * (after.writingTxs - before.writingTxs) / float64(n)
	}
	if after.serverCPU > 0 {
		m.Figures["server"] = micros(after.serverCPU-before.serverCPU) / float64(n)
	}
	if after.clientCPU > 0 {
		m.Figures["client"] = micros(after.clientCPU-before.clientCPU) / float64(n)
	}
	return m, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// reading holds the resources that the server and this process have used so far.
type reading struct {
	serverCPU, clientCPU time.Duration // 0: unknown
	walBytes, writingTxs float64
	allocs               uint64
}

func (b *Bench) read(ctx context.Context) (r reading, err error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.clientCPU, r.serverCPU, r.allocs = processCPU(os.Getpid()), b.Server.cpu(), m.Mallocs
	if b.Server != nil {
		r.walBytes, r.writingTxs, err = b.Server.written(ctx)
	}
	return r, err
}

// Repeated measures f, which several goroutines call again and again. A warm-up opens every connection first.
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

// calls lets n goroutines call f again and again for d, and returns the number of calls.
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

// Share calls f once with each number below total, in n goroutines at a time.
func Share(ctx context.Context, n, total int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(n)
	for i := range total {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// ClaimerCount is the number of claimers in measurements without a worker.
const ClaimerCount = 4

// Claimers lets k goroutines call f, which returns how many jobs it did, until n are done.
func Claimers(ctx context.Context, k, n int, f func(context.Context) (int, error)) error {
	var remaining atomic.Int64
	remaining.Store(int64(n))
	group, ctx := errgroup.WithContext(ctx)
	for range k {
		group.Go(func() error {
			for remaining.Load() > 0 {
				claimed, err := f(ctx)
				if err != nil {
					return err
				}
				remaining.Add(-int64(claimed))
			}
			return nil
		})
	}
	return group.Wait()
}

// sleep waits for d or until ctx ends.
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
