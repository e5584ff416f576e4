package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
)

// A child is a second process of this program that works on the same database. It
// reads its order from the environment, says that it is ready, begins when a line
// comes in, and ends when its input does. Meanwhile it reports.

const childEnv = "DIBS_BENCH_CHILD"

// order is what a child is to do: run a worker, or so many claimers of single jobs.
type order struct {
	System   string
	URL      string
	Pool     int
	Poll     bool
	Handlers int
	Claimers int
}

// report is what a child says: at once when it is ready, then its count every few
// milliseconds, and the rest at its end.
type report struct {
	Count    int64
	P50, P99 time.Duration // from sent to started
	MB       float64       // the most memory it had
}

const reportEvery = 5 * time.Millisecond

type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	count atomic.Int64
	ended chan error // one, when its reports have ended
	last  report     // read it after ended
}

// spawn starts a child and waits until it is ready.
func (b *bench) spawn(ctx context.Context, o order) (*child, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self), ended: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		c.in, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	reports := json.NewDecoder(out)
	if err := reports.Decode(&c.last); err != nil {
		return nil, errors.Join(fmt.Errorf("a process was not ready: %w", err), c.cmd.Wait())
	}
	go c.listen(reports)
	return c, nil
}

func (c *child) listen(reports *json.Decoder) {
	for {
		if err := reports.Decode(&c.last); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			c.ended <- errors.Join(err, c.cmd.Wait())
			return
		}
		c.count.Store(c.last.Count)
	}
}

func (c *child) begin() error {
	_, err := fmt.Fprintln(c.in)
	return err
}

// end has the child stop, and returns its last report.
func (c *child) end() (report, error) {
	err := errors.Join(c.in.Close(), <-c.ended)
	return c.last, err
}

// await returns when the children have done n jobs together.
func await(ctx context.Context, n int, children ...*child) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		var sum int64
		for _, c := range children {
			sum += c.count.Load()
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

// serve is a child's whole life.
func serve(ctx context.Context, text string) error {
	signal.Ignore(os.Interrupt) // its parent says when it ends
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	p := onPostgres
	if o.System == asRiver.name {
		p = asRiver
	}
	s, err := p.attach(ctx, o.URL, o.Pool, o.Poll)
	if err != nil {
		return err
	}
	defer s.close()
	out, in := json.NewEncoder(os.Stdout), bufio.NewReader(os.Stdin)
	if err := out.Encode(report{}); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return nil // it is not needed after all
	}
	var d diary
	stop, err := d.begin(ctx, s, o)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in) // whatever ends the input ends the work
	}()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := out.Encode(report{Count: d.count.Load()}); err != nil {
				return errors.Join(err, stop())
			}
		case <-ended:
			return cmp.Or(stop(), out.Encode(d.report()))
		}
	}
}

// diary is what a child notes of its work.
type diary struct {
	count atomic.Int64
	mu    sync.Mutex
	waits []time.Duration
}

func (d *diary) begin(ctx context.Context, s system, o order) (stop func() error, err error) {
	if o.Claimers > 0 {
		return d.claim(ctx, s.(dibsSystem).db, o.Claimers), nil
	}
	return s.work(ctx, work{
		handlers: o.Handlers,
		started: func(m mail) {
			if m.Sent == 0 {
				return
			}
			wait := time.Duration(time.Now().UnixNano() - m.Sent)
			d.mu.Lock()
			d.waits = append(d.waits, wait)
			d.mu.Unlock()
		},
		finished: func(string) { d.count.Add(1) },
	})
}

// claim runs k claimers that take one job at a time.
func (d *diary) claim(ctx context.Context, db dibs.Store, k int) (stop func() error) {
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- share(ctx, k, k, func(ctx context.Context, _ int) error {
			for !over.Load() {
				n, err := lifecycle(ctx, db, 1)
				if err != nil {
					return err
				}
				d.count.Add(int64(n))
			}
			return nil
		})
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
