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
	"github.com/dibs-queue/dibs/internal/lab"
)

// A worker process is a second process of this program that works at the same place.
// It reads its order from the environment, since the order may hold a password.
// It reports that it is ready and begins at the first line of input. Then it reports that its
// handlers can run, later its count, and it ends with its input.
// A fresh process enqueues one job, reports and ends.

// OrderEnv is the environment variable for the order of a worker process.
const OrderEnv = "DIBS_BENCH_ORDER"

// order tells a process what to run: a worker, claimers of single jobs, one enqueue, or a
// loop that only uses the processor.
type order struct {
	System   string
	Place    Place
	Pool     int
	NoListen bool
	Handlers int
	Claimers int
	Fleet    []string // the queues of a worker of a fleet
	Fresh    bool     // enqueue one job whose Mail.Sent is the start of the process
	Exit     bool     // end a fresh process at once, without closing the system
	Burn     bool
}

// report is what a process sends. The first is empty and says that it is ready, the second is
// empty and says that it has begun. Then one comes whenever its count has changed; the last
// one has all.
type report struct {
	Count   int64
	Starts  []Start         // starts of the jobs that have Mail.Sent
	Started int64           // handlers that a fleet has started
	Lost    int64           // leases lost
	Claims  []time.Duration // how long the claims that gave jobs took
	MB      float64         // largest memory of the process
}

// handlers run jobs, in this process or in another one.
type handlers interface {
	// done returns how many jobs were completed, or why no more will be.
	done() (int64, error)
	// end waits for running handlers, and returns the last report.
	end() (report, error)
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
	*lab.Process
	count        atomic.Int64
	reported     chan struct{} // holds an element if a report has come since the last look
	reportsEnded chan error    // receives one error, or nil, after the last report
	lastReport   report        // complete after reportsEnded
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
	w := &worker{reported: make(chan struct{}, 1), reportsEnded: make(chan error, 1)}
	w.Process, err = lab.Start(name, b.Dir, cmd, b.Launch)
	_ = out.Close() // the process has its own copy
	if err != nil {
		_ = in.Close() // no process writes to it
		return nil, err
	}
	go w.listen(in)
	select {
	case <-w.reported:
		return w, nil
	case err := <-w.reportsEnded:
		return nil, cmp.Or(w.Stop(endPatience), err, fmt.Errorf("%s ended before it began", name))
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), w.Kill())
	}
}

// listen reads the reports until the process ends.
func (w *worker) listen(in *os.File) {
	defer in.Close()
	reports := json.NewDecoder(in)
	for {
		if err := reports.Decode(&w.lastReport); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			w.reportsEnded <- err
			return
		}
		w.count.Store(w.lastReport.Count)
		select {
		case w.reported <- struct{}{}:
		default:
		}
	}
}

// begin returns when the process has begun.
func (w *worker) begin(ctx context.Context) error {
	if err := w.Tell("begin\n"); err != nil {
		return err
	}
	select {
	case <-w.reported:
		return nil
	case err := <-w.reportsEnded:
		w.reportsEnded <- err // the method end reads it again
		return cmp.Or(w.Crashed(), err, fmt.Errorf("%s ended when it began", w.Name))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *worker) done() (int64, error) { return w.count.Load(), w.Crashed() }

// end stops the process and returns its last report.
func (w *worker) end() (report, error) {
	err := w.Stop(endPatience)
	return w.lastReport, errors.Join(err, <-w.reportsEnded)
}

// await returns when the handlers together have done n jobs.
func await[H handlers](ctx context.Context, n int, list ...H) error {
	tick := time.NewTicker(minReportInterval)
	defer tick.Stop()
	for {
		var sum int64
		for _, h := range list {
			done, err := h.done()
			if err != nil {
				return err
			}
			sum += done
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
	began := time.Now()
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
	if o.Fresh {
		return enqueueFirst(ctx, out, s, began, o.Exit)
	}
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
	d, err := newJournal(ctx, s, o)
	if err != nil {
		return err
	}
	if err := out.Encode(report{}); err != nil {
		return errors.Join(err, d.stop())
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
				return errors.Join(err, d.stop())
			}
		case err := <-d.failed:
			return err
		case <-ended:
			r, err := d.end()
			return cmp.Or(err, out.Encode(r))
		}
	}
}

// journal counts the jobs that this process does, and keeps their starts.
type journal struct {
	stop          func() error
	failed        chan error // receives one error if the work ends by itself
	count         atomic.Int64
	started, lost atomic.Int64
	mu            sync.Mutex
	starts        []Start
	claims        []time.Duration
}

// newJournal starts the work.
func newJournal(ctx context.Context, s System, o order) (*journal, error) {
	d := &journal{failed: make(chan error, 1)}
	if o.Claimers > 0 {
		d.stop = d.claim(ctx, s.(dibsSystem).db, o.Claimers)
		return d, nil
	}
	if len(o.Fleet) > 0 {
		d.stop = d.serveFleet(ctx, s.(dibsSystem).db, o.Fleet)
		return d, nil
	}
	var err error
	d.stop, err = s.Work(ctx, Work{
		Handlers: o.Handlers,
		Started: func(s Start) {
			if s.Sent == 0 {
				return
			}
			d.mu.Lock()
			d.starts = append(d.starts, s)
			d.mu.Unlock()
		},
		Finished: func(string) { d.count.Add(1) },
	})
	return d, err
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

func (d *journal) done() (int64, error) { return d.count.Load(), nil }

func (d *journal) end() (report, error) {
	err := d.stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	return report{Count: d.count.Load(), Starts: d.starts, Started: d.started.Load(), Lost: d.lost.Load(), Claims: d.claims, MB: peakMemory()}, err
}
