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
// reads its order from the environment, which may hold a password, says that it is ready,
// begins when a line comes in, and ends when its input does. Meanwhile it reports.

// OrderEnv names the variable with the order.
const OrderEnv = "DIBS_BENCH_ORDER"

// order is what a process is to do: run a worker, or so many claimers of single jobs, or
// nothing but use the processor.
type order struct {
	System   string
	Place    Place
	Pool     int
	Poll     bool
	Handlers int
	Claimers int
	Burn     bool
}

// report is what a process says: at once when it is ready, then its count whenever it
// has changed, and the rest at its end.
type report struct {
	Count    int64
	P50, P99 time.Duration // from sent to started
	MB       float64       // the most memory it had
}

const (
	reportEvery = 5 * time.Millisecond
	// lookEvery is how often, at least, a process looks whether its count has changed:
	// more often only while it does, or what an idle process costs would be this.
	lookEvery   = 100 * time.Millisecond
	endPatience = time.Minute // with a process that is to end
)

// worker is a process that was started.
type worker struct {
	*child.Process
	count atomic.Int64
	heard chan error // one, when its reports have ended
	last  report     // read it after heard
}

// spawn starts a process, whose name no other has at the time, and waits until it is ready.
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
	w := &worker{heard: make(chan error, 1)}
	w.Process, err = child.Start(name, b.Dir, cmd, b.Launch)
	_ = out.Close() // the process has its own
	if err != nil {
		_ = in.Close() // nobody writes to it
		return nil, err
	}
	ready := make(chan struct{})
	go w.listen(in, ready)
	select {
	case <-ready:
		return w, nil
	case err := <-w.heard:
		return nil, cmp.Or(w.Stop(endPatience), err, fmt.Errorf("%s ended before it began", name))
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), w.Kill())
	}
}

// listen reads the reports until they end, which they do with the process.
func (w *worker) listen(in *os.File, ready chan<- struct{}) {
	defer in.Close()
	reports := json.NewDecoder(in)
	for first := true; ; first = false {
		if err := reports.Decode(&w.last); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			w.heard <- err
			return
		}
		if first {
			close(ready)
		}
		w.count.Store(w.last.Count)
	}
}

func (w *worker) begin() error { return w.Tell("begin\n") }

// end has the process stop, and returns its last report.
func (w *worker) end() (report, error) {
	err := w.Stop(endPatience)
	return w.last, errors.Join(err, <-w.heard)
}

// await returns when the processes have done n jobs together.
func await(ctx context.Context, n int, workers ...*worker) error {
	tick := time.NewTicker(reportEvery)
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

// Serve is a process' whole life: it does what the order in its environment says, with
// one of the products, until its input ends.
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
			if s, err = p.Attach(ctx, o.Place, o.Pool, o.Poll); err != nil {
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
		return nil // it is not needed after all
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
	d := diary{failed: make(chan error, 1)}
	stop, err := d.begin(ctx, s, o)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in) // whatever ends the input ends the work
	}()
	every, said := reportEvery, int64(0)
	for {
		select {
		case <-time.After(every):
			n := d.count.Load()
			if n == said {
				every = min(2*every, lookEvery)
				continue
			}
			every, said = reportEvery, n
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

// diary is what a process notes of its work.
type diary struct {
	failed chan error // one, when the work ended by itself
	count  atomic.Int64
	mu     sync.Mutex
	waits  []time.Duration
}

func (d *diary) begin(ctx context.Context, s System, o order) (stop func() error, err error) {
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

// claim runs k claimers that take one job at a time.
func (d *diary) claim(ctx context.Context, db dibs.Store, k int) (stop func() error) {
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() {
		err := Share(ctx, k, k, func(ctx context.Context, _ int) error {
			for !over.Load() {
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
		over.Store(true)
		return <-ended
	}
}

func (d *diary) report() report {
	d.mu.Lock()
	defer d.mu.Unlock()
	return report{Count: d.count.Load(), P50: quantile(d.waits, 0.50), P99: quantile(d.waits, 0.99), MB: peakMemory()}
}
