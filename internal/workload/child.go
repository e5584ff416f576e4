package workload

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/child"
)

// A worker process is a second process of this program that works at the same place. It
// reads its order from the environment, since the order may hold a password. It reports
// that it is ready, begins at the first line of input, reports its count, and ends with
// its input.

// OrderEnv is the environment variable for the order of a worker process.
const OrderEnv = "DIBS_BENCH_ORDER"

// order tells a process what to run: a worker, claimers of single jobs, or a loop that
// only uses the processor.
type order struct {
	System   string
	Place    Place
	Pool     int
	NoListen bool
	Handlers int
	Claimers int
	Burn     bool
}

// report is what a process sends: an empty one when it is ready, one with its count
// whenever that has changed, and a full one at its end.
type report struct {
	Count    int64
	P50, P99 time.Duration // quantiles of the time from Mail.Sent to the start
	MB       float64       // largest memory of the process
}

const (
	minReportInterval = 5 * time.Millisecond
	// maxReportInterval is the interval between looks at an unchanged count. Short
	// intervals would dominate the measured cost of an idle process.
	maxReportInterval = 100 * time.Millisecond
	endPatience       = time.Minute // time limit for the end of a process
)

// worker is a started worker process.
type worker struct {
	*child.Process
	count        atomic.Int64
	reportsEnded chan error // receives one error, or nil, after the last report
	lastReport   report     // complete after reportsEnded
}

// spawn starts a process and waits until it is ready. No running process may have its name.
func (b *Bench) spawn(ctx context.Context, name string, o order) (*worker, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd, err := b.Command()
	if err != nil {
		return nil, err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Env, cmd.Stdout = append(cmd.Environ(), OrderEnv+"="+string(text)), out
	w := &worker{reportsEnded: make(chan error, 1)}
	w.Process, err = child.Start(name, b.Dir, cmd, b.Launch)
	_ = out.Close() // the process has its own copy
	if err != nil {
		_ = in.Close() // no process writes to it
		return nil, err
	}
	ready := make(chan struct{})
	go w.listen(in, ready)
	select {
	case <-ready:
		return w, nil
	case err := <-w.reportsEnded:
		return nil, cmp.Or(w.Stop(endPatience), err, fmt.Errorf("%s ended before it began", name))
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), w.Kill())
	}
}

// listen reads the reports until the process ends.
func (w *worker) listen(in *os.File, ready chan<- struct{}) {
	defer in.Close()
	reports := json.NewDecoder(in)
	for first := true; ; first = false {
		if err := reports.Decode(&w.lastReport); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			w.reportsEnded <- err
			return
		}
		if first {
			close(ready)
		}
		w.count.Store(w.lastReport.Count)
	}
}

func (w *worker) begin() error { return w.Tell("begin\n") }

// end stops the process and returns its last report.
func (w *worker) end() (report, error) {
	err := w.Stop(endPatience)
	return w.lastReport, errors.Join(err, <-w.reportsEnded)
}

// await returns when the processes together have done n jobs.
func await(ctx context.Context, n int, workers ...*worker) error {
	tick := time.NewTicker(minReportInterval)
	defer tick.Stop()
	for {
		var sum int64
		for _, w := range workers {
			sum += w.count.Load()
			if err := w.Crashed(); err != nil {
				return err
			}
		}
		if sum >= int64(n) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs were done: %w", sum, n, ctx.Err())
		}
	}
}

// Serve is the main function of a worker process. It follows the order in its environment,
// with one of the products, until its input ends.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer, products ...Product) error {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(OrderEnv)), &o); err != nil {
		return fmt.Errorf("%s: %w", OrderEnv, err)
	}
	if o.Burn {
		return burn(stdin, stdout)
	}
	var s System
	for _, p := range products {
		if p.Name == o.System {
			var err error
			if s, err = p.Attach(ctx, o.Place, o.Pool, o.NoListen); err != nil {
				return err
			}
			defer s.Close()
		}
	}
	if s == nil {
		return fmt.Errorf("%s: no system %q", OrderEnv, o.System)
	}
	in, out := bufio.NewReader(stdin), json.NewEncoder(stdout)
	if err := out.Encode(report{}); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return nil // the parent has closed the input before work began
	}
	return serve(ctx, in, out, s, o)
}

// burn uses the processor until the input ends.
func burn(stdin io.Reader, stdout io.Writer) error {
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // whatever ends the input ends the work
		ended.Store(true)
	}()
	if err := json.NewEncoder(stdout).Encode(report{}); err != nil {
		return err
	}
	for !ended.Load() {
	}
	return nil
}

func serve(ctx context.Context, in io.Reader, out *json.Encoder, s System, o order) error {
	d := journal{failed: make(chan error, 1)}
	stop, err := d.start(ctx, s, o)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in) // whatever ends the input ends the work
	}()
	interval, reported := minReportInterval, int64(0)
	for {
		select {
		case <-time.After(interval):
			n := d.count.Load()
			if n == reported {
				interval = min(2*interval, maxReportInterval)
				continue
			}
			interval, reported = minReportInterval, n
			if err := out.Encode(report{Count: n}); err != nil {
				return errors.Join(err, stop())
			}
		case err := <-d.failed:
			return err
		case <-ended:
			return cmp.Or(stop(), out.Encode(d.report()))
		}
	}
}

// journal counts a process' jobs and keeps their waits.
type journal struct {
	failed chan error // receives one error if the work ends by itself
	count  atomic.Int64
	mu     sync.Mutex
	waits  []time.Duration
}

func (d *journal) start(ctx context.Context, s System, o order) (stop func() error, err error) {
	if o.Claimers > 0 {
		return d.claim(ctx, s.(dibsSystem).db, o.Claimers), nil
	}
	return s.Work(ctx, Work{
		Handlers: o.Handlers,
		Started: func(m Mail) {
			if m.Sent == 0 {
				return
			}
			wait := time.Duration(time.Now().UnixNano() - m.Sent)
			d.mu.Lock()
			d.waits = append(d.waits, wait)
			d.mu.Unlock()
		},
		Finished: func(string) { d.count.Add(1) },
	})
}

// claim runs k claimers that each take one job at a time.
func (d *journal) claim(ctx context.Context, db dibs.Store, k int) (stop func() error) {
	var stopping atomic.Bool
	ended := make(chan error, 1)
	go func() {
		err := Share(ctx, k, k, func(ctx context.Context, _ int) error {
			for !stopping.Load() {
				n, err := lifecycle(ctx, db, 1)
				if err != nil {
					return err
				}
				d.count.Add(int64(n))
			}
			return nil
		})
		if err != nil {
			d.failed <- err
		}
		ended <- err
	}()
	return func() error {
		stopping.Store(true)
		return <-ended
	}
}

func (d *journal) report() report {
	d.mu.Lock()
	defer d.mu.Unlock()
	return report{Count: d.count.Load(), P50: quantile(d.waits, 0.50), P99: quantile(d.waits, 0.99), MB: peakMemory()}
}
