package dibs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Worker claims jobs of one queue or several, runs their handlers and finishes them. It writes
// the outcomes of jobs that end about the same time together: an outcome comes at most about
// 5 ms later for that, unless the job has a group or its queue a concurrency limit.
//
// Set the fields, register handlers with [Handle], [HandleBatch], [Kind.Handle] or
// [Worker.HandleRaw], then call Run; change neither afterwards.
type Worker struct {
	Store Store  // required
	Queue string // default DefaultQueue

	// Queues are up to 100 queues, in place of Queue. They share Concurrency. Where none has a
	// weight, their order is strict: while a queue has due jobs, those below it wait, however
	// long. With weights, no queue waits for ever: of queues that have due jobs, one of weight 3
	// starts three jobs where one of weight 1 starts one, on average.
	Queues []WorkQueue

	// Name is written to the jobs that the worker claims. Default: host name,
	// process id and a random part.
	Name string

	// Resume takes back, at the start, the jobs that a worker of the same Name held before
	// a restart, instead of waiting for their leases to end. It needs a Name, and no other
	// live process may use that name: its jobs would be taken from it.
	Resume bool

	// Concurrency is how many handlers run at once, 1 to 5000; default 10. While they are
	// quick, the worker claims up to 500 jobs more, as many as it starts within 10 ms, and
	// gives back those that it has not started after 100 ms.
	Concurrency int

	Lease time.Duration // MinLease to MaxLease; 0: the queue's

	// JobTimeout ends the context of a handler that runs longer. What the handler then
	// returns counts: nil completes the job, an error fails the attempt. 0: none. A queue may
	// have a JobTimeout too, which operators can change while the handler runs: the shorter of
	// both counts. KindOptions.Timeout takes the place of this one.
	JobTimeout time.Duration

	// ShutdownWait is how long Run lets handlers go on after its context has ended, until it
	// ends theirs. Default 15 s, so that Run returns within 20 s; negative: not at all.
	ShutdownWait time.Duration

	// Hooks observe the worker. By default it only logs.
	Hooks Hooks

	handlers   map[string]*kindHandler // one for each kind; "" handles all other kinds
	middleware []func(Handler) Handler
	runs       *runs // the calls of Run under way; made with the first handler
}

const (
	defaultConcurrency  = 10
	defaultShutdownWait = 15 * time.Second
	// maxConcurrency is half of what one Extend takes: a worker holds up to twice its
	// Concurrency, and extends all its jobs in one call.
	maxConcurrency = MaxBatch / 2
	maxKinds       = 1000 // one claim can ask for at most so many
)

// Run works until ctx ends and then shuts down: it stops claiming, waits
// ShutdownWait for the handlers, ends the contexts of those still running (with
// the cause [ErrShutdown]), releases their jobs, writes every outcome, and returns
// nil. From the end of ctx on that takes at most ShutdownWait and 5 s.
//
// A handler that goes on although its context ended is left behind, and the error
// names its job: the job cannot be released while its handler may still act, so it
// keeps its lease, unextended, and runs elsewhere after that.
//
// An unreachable database does not end Run. It repeats its claims until the database is
// back, and stops handlers whose leases it cannot extend meanwhile before these end. Run
// fails at once, with an [InvalidError], when the worker is not set up right, and with
// [ErrDenied] or [ErrSchema] when its first claim shows that the database is not; a right
// that is revoked later does not end it. When its store is closed ([ErrClosed]) it ends
// the handlers' contexts and fails as soon as they have returned.
func (w *Worker) Run(ctx context.Context) error {
	conf, err := w.complete(ctx)
	if err != nil {
		return err
	}
	base := context.WithoutCancel(ctx) // keeps the values of ctx
	work, giveUp := context.WithCancelCause(base)
	defer giveUp(ErrShutdown)
	calls, endCalls := context.WithCancel(base)
	r := &run{
		Worker:    conf,
		kinds:     conf.Kinds(),
		calls:     calls,
		asked:     make(chan func()),
		held:      make(map[int64]*held),
		over:      make(chan struct{}),
		feeds:     conf.feeds(),
		attempts:  newAttempts(work, giveUp, conf.Concurrency),
		claims:    claims{call: newCall[found]()},
		extends:   extends{call: newCall[Extended]()},
		writes:    writes{call: newCall[struct{}]()},
		sweeps:    sweeps{call: newCall[Swept]()},
		registers: registers{call: newCall[struct{}]()},
	}
	r.registers.entry = entryOf(&r.Worker, r.feeds.all, r.kinds)
	defer r.listen()()
	defer conf.runs.add(r)()
	defer func() { // a hook may end the goroutine (runtime.Goexit)
		close(r.over)
		endCalls()
		r.underway.Wait()
	}()
	return r.loop(ctx)
}

// complete checks the worker and returns it with its defaults filled in.
func (w *Worker) complete(ctx context.Context) (Worker, error) {
	switch {
	case w == nil:
		return Worker{}, &InvalidError{"worker", "is nil"}
	case ctx == nil:
		return *w, &InvalidError{"ctx", "is nil; give the context whose end stops the worker"}
	}
	c := *w
	c.Hooks.fill()
	if err := c.checkQueues(); err != nil {
		return c, err
	}
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.ShutdownWait == 0 {
		c.ShutdownWait = defaultShutdownWait
	}
	switch {
	case c.Store == nil:
		return c, &InvalidError{"worker.store", "is missing"}
	case len(c.handlers) == 0:
		return c, &InvalidError{"worker", "has no handlers; register them with dibs.Handle before Run"}
	case len(c.handlers) > maxKinds && c.handlers[""] == nil:
		return c, &InvalidError{"worker", fmt.Sprintf("has handlers for %d kinds, the limit is %d; use HandleRaw with kind \"\"", len(c.handlers), maxKinds)}
	case c.checkKinds() != nil:
		return c, c.checkKinds()
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
		return c, &InvalidError{"worker.concurrency", fmt.Sprintf("must be 1 to %d, got %d", maxConcurrency, c.Concurrency)}
	case c.Lease != 0 && (c.Lease < MinLease || c.Lease > MaxLease):
		return c, &InvalidError{"worker.lease", fmt.Sprintf("must be %v to %v, or 0 for the queue's, got %v", MinLease, MaxLease, c.Lease)}
	case c.JobTimeout < 0:
		return c, &InvalidError{"worker.job_timeout", fmt.Sprintf("must not be negative, got %v", c.JobTimeout)}
	case c.Resume && c.Name == "":
		return c, &InvalidError{"worker.resume", "needs a name that stays the same when the process restarts"}
	}
	if c.Name == "" {
		c.Name = defaultName()
	}
	handlers := make(map[string]*kindHandler, len(c.handlers))
	for kind, h := range c.handlers {
		handlers[kind] = h.withDefaults(&c)
		var err error
		if handlers[kind].run, err = c.around(h.run); err != nil {
			return c, err
		}
	}
	c.handlers = handlers
	return c, nil
}

// Kinds lists, sorted, the kinds that the worker has handlers for; nil: all kinds.
func (w *Worker) Kinds() []string {
	if w.handlers[""] != nil {
		return nil
	}
	kinds := make([]string, 0, len(w.handlers))
	for k := range w.handlers {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

func (w *Worker) handler(kind string) *kindHandler {
	if h := w.handlers[kind]; h != nil {
		return h
	}
	return w.handlers[""]
}

func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	var id [4]byte
	rand.Read(id[:])
	return fmt.Sprintf("%.200s-%d-%s", host, os.Getpid(), hex.EncodeToString(id[:]))
}

// run is one call of Worker.Run. Its loop owns all of it; handlers and store
// calls run on goroutines of their own and answer through channels.
// What one step keeps is declared in the file of that step.
type run struct {
	Worker // the caller's worker with defaults filled in
	kinds  []string

	held map[int64]*held // the worker's jobs by id: handlers run, or outcomes are not yet written
	over chan struct{}   // closed at the end of Run, when attempts.done is no longer read

	asked      chan func() // what other goroutines ask the loop to do: see health.go
	answeredAt time.Time   // when the database last did what it was asked

	calls    context.Context // context of the store calls; ends with Run
	underway sync.WaitGroup  // waits for the store calls under way

	feeds     feeds
	ahead     ahead
	claims    claims
	attempts  attempts
	extends   extends
	writes    writes
	sweeps    sweeps
	registers registers
	shutdown  shutdown
}
