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
	"github.com/dibs-queue/dibs/internal/history"
)

// Config is a run.
type Config struct {
	About
	DB      dibs.Database // with nothing in it but a schema
	URL     string        // names the database
	Effects string        // the name of the table to make for effects
	Dir     string        // where the histories go
	// Processes play the parts.
	Processes Processes
	// Server may be killed during the run; nil: it is not ours to kill.
	Server Server
	// Watch gets the progress twice a second.
	Watch func(Progress)
	// GiveUp ends the run once the faults were ended early.
	GiveUp <-chan struct{}
	// Adopted is what RunAdopted works on.
	Adopted *Adopted
}

// Processes makes processes and starts them.
type Processes interface {
	// Command makes a process that plays a part on the database at url, and ends when
	// its stdin does.
	Command(p Part, url string) (*exec.Cmd, error)
	// Start is the command's, such that the process ends with this one, however that
	// ends: a process that is stopped does not see the end of its stdin.
	Start(*exec.Cmd) error
}

// Server is a database server of one's own.
type Server interface {
	Crash(hard bool) error // ends it without warning: by SIGKILL, or by what PostgreSQL calls immediate
	Start() error
}

const (
	producers = 2
	tick      = 500 * time.Millisecond
	stallTime = time.Minute     // without any progress: what is left then, nobody will do
	endTime   = 2 * time.Minute // for a process to end that was asked to: it needs some seconds, if it gets a core
)

// run is one run. Its seats lock themselves; everything else belongs to the
// goroutine of Run, or does not change while the faults go on.
type run struct {
	Config
	seats       []*seat
	startQueues []dibs.Queue
	startGroups map[string]int

	rec      *history.Recorder // records the faults
	operator *history.Recorder
	admin    dibs.Database // records as the operator
	enqueued int           // jobs of the steady queue

	mu     sync.Mutex
	counts map[string]int
}

// Run runs the torture and judges it. An error means that it could not be run, not
// that a promise was broken. When ctx ends while the faults go on, they end early, and
// what they did is judged all the same; at other times, the run ends at once.
func Run(ctx context.Context, c Config) (_ *Result, err error) {
	r := &run{Config: c, startGroups: map[string]int{}, counts: map[string]int{}}
	defer r.killAll()
	if r.rec, err = history.OpenIn(c.Dir, "faults"); err != nil {
		return nil, err
	}
	if r.operator, err = history.OpenIn(c.Dir, "operator"); err != nil {
		return nil, err
	}
	r.admin = history.Wrap(c.DB, r.operator)
	if err := inTurn(ctx, r.describe, r.prepare, r.makeSeats, r.startAll); err != nil {
		return nil, err
	}
	if err := r.torment(ctx); err != nil {
		return nil, err
	}
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		var stop context.CancelFunc
		ctx, stop = r.afterwards(ctx)
		defer stop()
		r.watch(ctx, "draining")
	}
	if err := inTurn(ctx, r.lift, r.drain, r.endAll); err != nil {
		return nil, err
	}
	if err := errors.Join(r.rec.Close(), r.operator.Close()); err != nil {
		return nil, err
	}
	r.Took, r.Faults = time.Since(r.Began), r.counts
	return r.judge(ctx)
}

// inTurn takes one step after the other, for as long as they succeed and ctx lasts.
func inTurn(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return err
		}
	}
	return nil
}

// afterwards lasts beyond ctx, until the run is given up.
func (r *run) afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
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

// judge reads what was left, keeps it and judges it, which may take as long as the run.
func (r *run) judge(ctx context.Context) (result *Result, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err = together(ctx,
		func(ctx context.Context) error { return r.look(ctx, "judging") },
		func(ctx context.Context) error {
			defer stop()
			e, err := r.evidence(ctx)
			if err == nil {
				err = keep(r.Dir, r.About, &e)
			}
			if err == nil {
				result = judged(r.About, r.Dir, e)
			}
			return err
		})
	return result, err
}

// seatsOf makes the seats of one kind.
func (r *run) seatsOf(n int, name string, producer bool, pool int) error {
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
		s.make = func(p Part) (*exec.Cmd, error) { return r.Processes.Command(p, url) }
		s.launch = r.Processes.Start
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
	return errors.Join(err, r.seatsOf(r.Workers, "worker", false, pool), r.seatsOf(producers, "producer", true, pool))
}

func (r *run) startAll(context.Context) error {
	for _, s := range r.seats {
		if err := s.start(); err != nil {
			return err
		}
	}
	return nil
}

// withSQL runs f with database/sql connections past the proxies.
func (r *run) withSQL(f func(*sql.DB) error) error { return withSQL(r.DB, r.URL, f) }

// torment lets the faults go on for the time of the run.
func (r *run) torment(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, r.Duration)
	defer stop()
	var all []func(context.Context) error
	for i, f := range r.faults() {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(i)))
		all = append(all, func(ctx context.Context) error { return r.repeat(ctx, rng, f) })
	}
	all = append(all, func(ctx context.Context) error { return r.look(ctx, "running") })
	return together(ctx, all...)
}

// look shows the progress until ctx ends, and fails when a process has ended by itself.
func (r *run) look(ctx context.Context, stage string) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := r.crashed(); err != nil {
			return err
		}
		r.watch(ctx, stage)
	}
}

func (r *run) crashed() error {
	for _, s := range r.seats {
		if !s.mu.TryLock() {
			continue // something is being done to it
		}
		err := s.now.crashed()
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) endAll(context.Context) error { return r.end(func(Part) bool { return true }) }

// end ends the processes that play such parts, if they have not ended yet.
func (r *run) end(which func(Part) bool) error {
	errs := make([]error, len(r.seats))
	var group sync.WaitGroup
	for i, s := range r.seats {
		if which(s.part) {
			group.Go(func() { errs[i] = s.now.end(endTime) })
		}
	}
	group.Wait()
	return errors.Join(errs...)
}

// killAll is for when a run ends before its processes were ended.
func (r *run) killAll() {
	for _, s := range r.seats {
		if s.now != nil {
			_ = s.now.kill() // nothing is left to be done about it
		}
		if s.proxy != nil {
			s.proxy.close()
		}
	}
}
