package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/child"
)

// Config is a demonstration to run.
type Config struct {
	DB      dibs.Database // with nothing in it but a schema
	Jobs    int
	Workers int    // at least 2: one is killed
	Dir     string // where the histories go
	// Command makes a process that calls Work, and ends when its stdin does.
	Command func(name, history string) *exec.Cmd
	// Watch gets the progress several times a second.
	Watch func(Progress)
}

// Result is what came out.
type Result struct {
	Verdict
	Took     time.Duration
	Attempts int
	Jobs     int
}

const (
	tick      = 100 * time.Millisecond
	giveUp    = 2 * time.Minute // what is not done by then is left behind
	stopWait  = 10 * time.Second
	batchSize = 1000
	// settle is how long after a kill the demo asks what the worker held: the
	// database's server may still be at a statement that it had sent.
	settle = 250 * time.Millisecond
)

// stage is one demonstration. A single goroutine owns it.
type stage struct {
	Config
	plan    Plan
	ids     []int64
	refused int
	began   time.Time
	history *History
	workers []*worker
	kills   []Kill
	told    bool // that the killed worker's jobs run again
	show    Progress
}

// worker is a process that calls Work.
type worker struct {
	*child.Process
	history string
}

// Run runs the demonstration and judges it. An error means that it could not be
// run, not that a promise was broken.
func Run(ctx context.Context, c Config) (Result, error) {
	r := &stage{Config: c, plan: NewPlan(c.Jobs), history: NewHistory(), began: time.Now()}
	defer r.killAll()
	steps := []func(context.Context) error{r.prepare, r.enqueue, r.startAll, r.watch, r.stopAll}
	for _, step := range steps {
		if err := step(ctx); ctx.Err() != nil {
			return Result{}, ctx.Err()
		} else if err != nil {
			return Result{}, err
		}
	}
	took := time.Since(r.began)
	e, err := r.evidence(ctx)
	if err != nil {
		return Result{}, err
	}
	result := Result{Verdict: Judge(e), Took: took, Jobs: c.Jobs}
	for _, job := range e.Final {
		result.Attempts += job.Attempt
	}
	return result, nil
}

func (r *stage) prepare(ctx context.Context) error {
	lease := Lease
	if _, err := r.DB.SetQueue(ctx, Queue, dibs.QueueChange{Lease: &lease, Backoff: &backoff}); err != nil {
		return err
	}
	for group, limit := range r.plan.Limits {
		if err := r.DB.SetGroup(ctx, Queue, group, limit); err != nil {
			return err
		}
	}
	return nil
}

// enqueue enqueues the plan, and a second time the jobs that hold a unique key.
func (r *stage) enqueue(ctx context.Context) error {
	start := time.Now()
	var batch []dibs.NewJob
	for i, j := range r.plan.Jobs {
		batch = append(batch, j.New)
		if len(batch) < batchSize && i < len(r.plan.Jobs)-1 {
			continue
		}
		done, err := r.DB.Enqueue(ctx, batch)
		if err != nil {
			return err
		}
		for _, e := range done {
			r.ids = append(r.ids, e.ID)
		}
		batch = batch[:0]
	}
	again, err := r.DB.Enqueue(ctx, r.plan.Twice)
	if err != nil {
		return err
	}
	for _, e := range again {
		if e.Existing {
			r.refused++
		}
	}
	r.event("all jobs enqueued in %v; %d duplicates refused (unique key)",
		time.Since(start).Round(time.Millisecond), r.refused)
	return nil
}

func (r *stage) startAll(context.Context) error {
	for range r.Workers {
		if err := r.startOne(); err != nil {
			return err
		}
	}
	r.event("%d worker processes started: %d jobs at once each, leases of %v", r.Workers, concurrency, Lease)
	return nil
}

func (r *stage) startOne() error {
	name := fmt.Sprintf("worker-%d", len(r.workers)+1)
	history := filepath.Join(r.Dir, name+".history")
	p, err := child.Start(name, r.Dir, r.Command(name, history), (*exec.Cmd).Start)
	if err != nil {
		return err
	}
	r.workers = append(r.workers, &worker{p, history})
	return nil
}

// watch follows the run to its end, and kills a worker on the way.
func (r *stage) watch(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if err := r.look(ctx); err != nil {
			return err
		}
		if err := r.killOne(ctx); err != nil {
			return err
		}
		if r.Watch != nil {
			r.Watch(r.show)
		}
		if r.show.left() == 0 || time.Since(r.began) > giveUp {
			break
		}
	}
	if len(r.kills) == 0 {
		return errors.New("all jobs were done before a worker could be killed; enqueue more of them")
	}
	return nil
}

// killOne kills the last of the first workers once 40 % of the jobs are done and
// it has its hands full, starts another, and notes what the dead one held.
func (r *stage) killOne(ctx context.Context) error {
	victim := r.workers[r.Workers-2]
	switch {
	case victim.Killed.IsZero():
		busy := r.show.Workers[r.Workers-2].Running
		done := r.show.done() * 100 / r.Jobs
		if done < 40 || busy == 0 || busy < concurrency/2 && done < 60 {
			return nil
		}
		if err := victim.Kill(); err != nil {
			return err
		}
		if err := r.startOne(); err != nil {
			return err
		}
		r.event("%s killed (SIGKILL) at its work; %s takes its place", victim.Name, r.workers[len(r.workers)-1].Name)
	case len(r.kills) == 0 && time.Since(victim.Killed) > settle:
		running, err := list(ctx, r.DB, dibs.Running)
		if err != nil {
			return err
		}
		k := Kill{Worker: victim.Name, At: victim.Killed}
		for _, job := range running {
			if job.Worker == victim.Name {
				k.Held = append(k.Held, job)
			}
		}
		r.kills = append(r.kills, k)
		r.event("%s left %d jobs; nobody may touch them before their leases end", victim.Name, len(k.Held))
	}
	return nil
}

func (r *stage) stopAll(context.Context) error {
	var err error
	for _, p := range r.workers {
		if p.Killed.IsZero() {
			err = errors.Join(err, p.Stop(stopWait))
		}
	}
	return err
}

// killAll is for when the demo ends before its workers were stopped.
func (r *stage) killAll() {
	for _, p := range r.workers {
		_ = p.Kill() // nothing is left to be done about it
	}
}

func (r *stage) evidence(ctx context.Context) (Evidence, error) {
	e := Evidence{
		Plan: r.plan, IDs: r.ids, Refused: r.refused, Kills: r.kills,
		Final: map[int64]*dibs.RawJob{},
	}
	if err := r.read(); err != nil {
		return e, err
	}
	e.History = r.history.Attempts
	for _, state := range []dibs.State{dibs.Completed, dibs.Dead, dibs.Cancelled} {
		jobs, err := list(ctx, r.DB, state)
		if err != nil {
			return e, err
		}
		for _, job := range jobs {
			e.Final[job.ID] = job
		}
	}
	var err error
	if e.Left, err = list(ctx, r.DB, ""); err != nil {
		return e, err
	}
	e.Check, err = r.DB.Check(ctx)
	return e, err
}

// list reads all jobs of a state, page by page.
func list(ctx context.Context, db dibs.Database, state dibs.State) ([]*dibs.RawJob, error) {
	f := dibs.Filter{Queue: Queue, State: state, Limit: 1000}
	var jobs []*dibs.RawJob
	for {
		page, err := db.List(ctx, f)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, page.Jobs...)
		if page.Next == "" {
			return jobs, nil
		}
		f.After = page.Next
	}
}
