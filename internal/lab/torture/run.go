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
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Config says what a run consists of.
type Config struct {
	About
	DB      dibs.Database // empty except for its schema
	URL     string        // the database's URL
	Effects string        // the name of the table for effects, which Run makes
	Dir     string        // the folder for the records
	// Processes makes the worker and producer processes.
	Processes Processes
	// Server is killed during the run; nil: the server belongs to others.
	Server Server
	// Watch gets the progress twice a second.
	Watch func(Progress)
	// GiveUp ends a run whose faults have ended early, without a verdict.
	GiveUp <-chan struct{}
	// Adopted is the copy on which RunAdopted works.
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

// run is one run. Each seat has its own lock. All else belongs to the goroutine of Run, or
// does not change while the faults go on.
type run struct {
	Config
	crew        lab.Crew
	seats       []*seat // those of the crew, in the same order
	startQueues []dibs.Queue
	startGroups map[string]int

	rec        *history.Recorder // records the faults
	operator   *history.Recorder
	admin      dibs.Database // records the operator's calls
	steadyJobs int           // how many jobs the steady queue has been given

	mu     sync.Mutex
	counts map[string]int
}

// Run runs the torture and judges it. A broken promise is no error: an error means that the
// torture could not run. If ctx ends while the faults go on, they end early and the run is
// still judged. At other times, the run ends at once.
func Run(ctx context.Context, c Config) (_ *Result, err error) {
	r := &run{Config: c, startGroups: map[string]int{}, counts: map[string]int{}}
	defer r.killAll()
	if err := r.openRecords(); err != nil {
		return nil, err
	}
	if r.operator, err = history.OpenIn(c.Dir, "operator"); err != nil {
		return nil, err
	}
	r.admin = history.Wrap(c.DB, r.operator)
	if err := runSteps(ctx, r.describe, r.prepare, r.makeSeats, r.startAll); err != nil {
		return nil, err
	}
	if err := r.torment(ctx); err != nil {
		return nil, err
	}
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		var stop context.CancelFunc
		ctx, stop = r.outlive(ctx)
		defer stop()
		r.showProgress(ctx, "draining")
	}
	if err := runSteps(ctx, r.unpause, r.drain, r.endAll); err != nil {
		return nil, err
	}
	if err := errors.Join(r.rec.Close(), r.operator.Close()); err != nil {
		return nil, err
	}
	r.Took, r.Faults = time.Since(r.Began), r.counts
	return r.judge(ctx)
}

// openRecords makes the file for the faults.
func (r *run) openRecords() (err error) {
	r.rec, err = history.OpenIn(r.Dir, "faults")
	r.crew = lab.Crew{Dir: r.Dir, Launch: r.Processes.Start, Rec: r.rec}
	return err
}

// runSteps runs the steps one after the other, until one fails or ctx ends.
func runSteps(ctx context.Context, steps ...func(context.Context) error) error {
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
			e, err := r.evidence(ctx)
			if err == nil {
				err = writeEvidence(r.Dir, r.About, &e)
			}
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
	proxy *proxy // nil on SQLite
}

// addSeats makes the seats of all workers, or of all producers.
func (r *run) addSeats(n int, name string, producer bool, pool int) error {
	for i := range n {
		s := &seat{part: Part{
			Producer: producer, Name: fmt.Sprintf("%s-%d", name, i+1), Seat: i, Of: n,
			Seed: r.Seed ^ uint64(len(r.seats)+1)<<16, Dir: r.Dir, Effects: r.Effects,
		}}
		if r.Adopted != nil {
			s.part.Adopted, s.part.Resumes = r.Adopted.Mapping, r.Adopted.resumes()
		}
		url := r.URL
		if !r.onSQLite() {
			var err error
			if s.proxy, url, err = newProxy(r.URL, pool); err != nil {
				return err
			}
		}
		s.Seat = r.crew.Add(s.part.Name, func(client string, nth int) (*exec.Cmd, error) {
			part := s.part
			part.Client, part.Seed = client, part.Seed+uint64(nth)<<32
			return r.Processes.Command(part, url)
		})
		r.seats = append(r.seats, s)
	}
	return nil
}

func (r *run) onSQLite() bool {
	if r.Adopted != nil {
		return r.Adopted.SQLite
	}
	_, ok := r.DB.(interface{ DB() *sql.DB })
	return ok
}

func (r *run) makeSeats(ctx context.Context) error {
	pool, err := r.poolSize(ctx)
	return errors.Join(err, r.addSeats(r.Workers, "worker", false, pool), r.addSeats(producers, "producer", true, pool))
}

func (r *run) startAll(context.Context) error { return r.crew.Start() }

// withSQL runs f with database/sql connections that do not go through the proxies.
func (r *run) withSQL(f func(*sql.DB) error) error { return withSQL(r.DB, r.URL, f) }

// torment runs the faults for the duration of the run.
func (r *run) torment(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, r.Duration)
	defer stop()
	var all []func(context.Context) error
	for i, f := range r.faults() {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(i)))
		all = append(all, func(ctx context.Context) error { return r.repeat(ctx, rng, f) })
	}
	all = append(all, func(ctx context.Context) error { return r.monitor(ctx, "running") })
	return runAll(ctx, all...)
}

// monitor shows the progress until ctx ends, and fails if a process ends by itself.
func (r *run) monitor(ctx context.Context, stage string) error {
	ticker := time.NewTicker(tick)
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
		r.showProgress(ctx, stage)
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
