package torture

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Config says what a run consists of.
type Config struct {
	About
	DB      admin.Database // empty except for its schema
	URL     string         // the database's URL
	Effects string         // the name of the table for effects, which Run makes; a demo has none
	Dir     string         // the folder for the records
	// Processes makes the worker and producer processes.
	Processes Processes
	// Server is killed during the run; nil: the server belongs to others.
	Server Server
	// Watch gets the progress several times a second.
	Watch func(Progress)
	// GiveUp ends a run whose faults have ended early, without a verdict. Nil: a run that is
	// interrupted ends so at once.
	GiveUp <-chan struct{}
	// Adopted is the copy of an adopted table on which to run; nil: dibs' own tables.
	Adopted *Adopted
}

// Processes makes processes and starts them.
type Processes interface {
	// Command returns a process that plays a part on the database at url, and ends when
	// its stdin ends.
	Command(p Part, url string) (*exec.Cmd, error)
	// Start starts the command so that its process ends with this one, however that ends. A
	// process that is stopped does not see the end of its stdin.
	Start(*exec.Cmd) error
}

// Server is a database server that the run may kill.
type Server interface {
	Crash(hard bool) error // ends the server: by SIGKILL if hard, or by PostgreSQL's immediate shutdown
	Start() error
}

const (
	producers = 2
	tick      = 500 * time.Millisecond
	stallTime = time.Minute     // after this time without progress, the run waits no longer
	endTime   = 2 * time.Minute // how long processes have to end; on a busy machine they need some seconds
)

// plan is what a run consists of beside its processes.
type plan struct {
	producers int
	begin     []step        // what is done before the processes start
	faults    []fault       // what happens while they work
	every     time.Duration // how often the progress is shown
	// follow completes the progress, and reports whether the faults may end before their time; it may be nil.
	follow func(context.Context, *Progress) (ended bool, err error)
	end    []step // once the faults are over, before the processes end
	judge  func(context.Context) (*Result, error)
}

type step = func(context.Context) error

// makePlan chooses the plan of a run.
func (r *run) makePlan() plan {
	switch {
	case r.Adopted != nil:
		return r.adoptedPlan()
	case r.Jobs > 0:
		return r.demoPlan()
	}
	return plan{
		producers: producers, begin: []step{r.describe, r.prepare, r.addAll}, faults: r.faults(), every: tick,
		end: []step{r.unpause, r.drain}, judge: r.judge,
	}
}

// run is one run. Each seat has its own lock. All else belongs to the goroutine of Run, or
// does not change while the faults go on.
type run struct {
	Config
	plan        plan
	crew        lab.Crew
	seats       []*seat // those of the crew, in the same order
	startQueues []dibs.Queue
	startGroups map[string]map[string]int // limits by queue and group

	rec        *history.Recorder // records the faults
	operator   *history.Recorder
	admin      admin.Database // records the operator's calls
	steadyJobs int            // how many jobs the steady queue has been given

	mu     sync.Mutex
	counts map[string]int
}

// Run runs the torture and judges it. A broken promise is no error: an error means that the
// torture could not run. If ctx ends while the faults go on, they end early and the run is
// still judged. At other times, the run ends at once.
func Run(ctx context.Context, c Config) (_ *Result, err error) {
	r := &run{Config: c, startGroups: map[string]map[string]int{}, counts: map[string]int{}}
	defer r.killAll()
	if r.rec, err = history.OpenIn(c.Dir, "faults"); err != nil {
		return nil, err
	}
	if r.operator, err = history.OpenIn(c.Dir, "operator"); err != nil {
		return nil, err
	}
	r.admin = history.Wrap(c.DB, r.operator)
	r.crew = lab.Crew{Dir: c.Dir, Launch: c.Processes.Start, Rec: r.rec}
	r.plan = r.makePlan()
	if err := runSteps(ctx, append(r.plan.begin, r.startAll)...); err != nil {
		return nil, err
	}
	if err := r.torment(ctx); err != nil {
		return nil, err
	}
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		if r.GiveUp == nil {
			return nil, ctx.Err()
		}
		var stop context.CancelFunc
		ctx, stop = r.outlive(ctx)
		defer stop()
		if _, err := r.showProgress(ctx, "draining"); err != nil {
			return nil, err
		}
	}
	if err := runSteps(ctx, append(r.plan.end, r.endAll)...); err != nil {
		return nil, err
	}
	if err := errors.Join(r.rec.Close(), r.operator.Close()); err != nil {
		return nil, err
	}
	r.Took, r.Faults = time.Since(r.Began), r.counts
	return r.plan.judge(ctx)
}

// runSteps runs the steps one after the other, until one fails or ctx ends.
func runSteps(ctx context.Context, steps ...step) error {
	for _, step := range steps {
		if err := step(ctx); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return err
		}
	}
	return nil
}

// outlive returns a context that goes on after ctx, until the run is given up.
func (r *run) outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-r.GiveUp:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// judge collects the evidence, writes it to a file and judges it. This may take as long as
// the run.
func (r *run) judge(ctx context.Context) (result *Result, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err = runAll(ctx,
		func(ctx context.Context) error { return r.monitor(ctx, "judging") },
		func(ctx context.Context) error {
			defer stop()
			e, err := r.keepEvidence(ctx)
			if err == nil {
				result = judgeEvidence(r.About, r.Dir, e)
			}
			return err
		})
	return result, err
}

// seat is the place of a worker or a producer.
type seat struct {
	*lab.Seat
	part  Part
	proxy *proxy // nil without a server, and on a cluster
}

// addSeats makes the seats of all workers, or of all producers. On a server the connections of each
// pass through a proxy, which can cut them.
func (r *run) addSeats(n int, name string, producer bool, pool int) error {
	for i := range n {
		part := Part{Producer: producer, Name: fmt.Sprintf("%s-%d", name, i+1), Seat: i, Of: n}
		if r.Adopted != nil {
			part.Adopted, part.Resumes = r.Adopted.Mapping, r.Adopted.resumes()
		}
		var through *proxy
		url := r.URL
		var err error
		switch {
		case r.onCluster():
			url, err = withPool(r.URL, pool)
		case r.onServer():
			through, url, err = newProxy(r.URL, pool)
		}
		if err != nil {
			return err
		}
		r.addSeat(part, through, url)
	}
	return nil
}

// addSeat makes the seat of a process that plays a part on the database at url.
func (r *run) addSeat(part Part, through *proxy, url string) {
	part.Seed, part.Dir, part.Effects = r.Seed^uint64(len(r.seats)+1)<<16, r.Dir, r.Effects
	s := r.crew.Add(part.Name, func(client string, nth int) (*exec.Cmd, error) {
		next := part
		next.Client, next.Seed = client, part.Seed+uint64(nth)<<32
		return r.Processes.Command(next, url)
	})
	r.seats = append(r.seats, &seat{s, part, through})
}

// addAll makes the seats of all processes.
func (r *run) addAll(ctx context.Context) error {
	pool, err := r.poolSize(ctx)
	if err == nil {
		err = r.addSeats(r.Workers, "worker", false, pool)
	}
	if err == nil && r.Adopted == nil {
		err = r.addSeats(r.plan.producers, "producer", true, pool)
	}
	return err
}

func (r *run) startAll(context.Context) error { return r.crew.Start() }

// withSQL runs f with database/sql connections that do not go through the proxies.
func (r *run) withSQL(f func(*sql.DB) error) error { return withSQL(r.DB, r.URL, f) }

// torment runs the faults for the duration of the run.
func (r *run) torment(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, r.Duration)
	defer stop()
	var all []step
	for i, f := range r.plan.faults {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(i)))
		all = append(all, func(ctx context.Context) error { return r.repeat(ctx, rng, f) })
	}
	all = append(all, func(ctx context.Context) error {
		defer stop()
		return r.monitor(ctx, "running")
	})
	return runAll(ctx, all...)
}

// monitor shows the progress until ctx or a demo ends, and fails if a process ends by itself.
func (r *run) monitor(ctx context.Context, stage string) error {
	ticker := time.NewTicker(r.plan.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := r.crew.Crashed(); err != nil {
			return err
		}
		if ended, err := r.showProgress(ctx, stage); ended || err != nil {
			return err
		}
	}
}

func (r *run) endAll(context.Context) error { return r.crew.Stop(endTime) }

// killAll ends the processes that still run if a run ends early, and all proxies.
func (r *run) killAll() {
	r.crew.KillAll()
	for _, s := range r.seats {
		if s.proxy != nil {
			s.proxy.close()
		}
	}
}
