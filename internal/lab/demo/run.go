package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Config says which demonstration to run.
type Config struct {
	DB      dibs.Database // empty except for its schema
	Jobs    int
	Workers int    // at least 2, since one is killed
	Dir     string // an empty directory for the records of all clients
	// Command returns a process that calls Work and ends when its stdin ends.
	Command func(name string) *exec.Cmd
	// Watch gets the progress several times a second.
	Watch func(Progress)
}

// Result is the verdict on a demonstration, with figures.
type Result struct {
	Verdict
	Took     time.Duration
	Attempts int
	Jobs     int
}

const (
	tick      = 100 * time.Millisecond
	giveUp    = 2 * time.Minute // jobs that have not finished by then are left behind
	stopWait  = 10 * time.Second
	batchSize = 1000
	// settle is how long after a kill the demo asks which jobs the worker held: the
	// server may still execute a statement that the worker sent.
	settle = 250 * time.Millisecond
)

// slack is how much later than promised claims may be, because the machine is busy.
const slack = 3 * time.Second

// stage is one demonstration. A single goroutine owns it.
type stage struct {
	Config
	rec           *history.Recorder
	db            dibs.Database // records its calls
	plan          Plan
	began         time.Time
	history       history.Reader
	workers       []*lab.Process
	kills         []Kill
	recoveryShown bool // an event has said that the killed worker's jobs run again
	progress      Progress
}

// Run runs the demonstration and judges it. A broken promise is no error: an error means that
// the demonstration could not run.
func Run(ctx context.Context, c Config) (Result, error) {
	r := &stage{Config: c, plan: NewPlan(c.Jobs), began: time.Now()}
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

func (r *stage) prepare(ctx context.Context) (err error) {
	if r.rec, err = history.OpenIn(r.Dir, "demo"); err != nil {
		return err
	}
	r.db = history.Wrap(r.DB, r.rec)
	lease := Lease
	if _, err := r.db.SetQueue(ctx, Queue, dibs.QueueChange{Lease: &lease, Backoff: &backoff}); err != nil {
		return err
	}
	for group, limit := range r.plan.Limits {
		if err := r.db.SetGroup(ctx, Queue, group, dibs.GroupChange{Limit: &limit}); err != nil {
			return err
		}
	}
	return nil
}

// enqueue enqueues the plan, and then again its jobs that have unique keys.
func (r *stage) enqueue(ctx context.Context) error {
	start := time.Now()
	for jobs := range slices.Chunk(r.plan.Jobs, batchSize) {
		batch := make([]dibs.NewJob, len(jobs))
		for i, j := range jobs {
			batch[i] = j.New
		}
		if _, err := r.db.Enqueue(ctx, batch); err != nil {
			return err
		}
	}
	duplicates, err := r.db.Enqueue(ctx, r.plan.Duplicates)
	if err != nil {
		return err
	}
	refused := 0
	for _, e := range duplicates {
		if e.Existing {
			refused++
		}
	}
	r.addEvent("all jobs enqueued in %v; %d duplicates refused (unique key)",
		time.Since(start).Round(time.Millisecond), refused)
	return nil
}

func (r *stage) startAll(context.Context) error {
	for range r.Workers {
		if err := r.startOne(); err != nil {
			return err
		}
	}
	r.addEvent("%d worker processes started: %d jobs at once each, leases of %v", r.Workers, concurrency, Lease)
	return nil
}

func (r *stage) startOne() error {
	name := fmt.Sprintf("worker-%d", len(r.workers)+1)
	p, err := lab.Start(name, r.Dir, r.Command(name), nil)
	if err != nil {
		return err
	}
	r.workers = append(r.workers, p)
	return nil
}

// watch follows the run to its end and kills a worker meanwhile.
func (r *stage) watch(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if err := r.refresh(ctx); err != nil {
			return err
		}
		if err := r.killOne(ctx); err != nil {
			return err
		}
		if r.Watch != nil {
			r.Watch(r.progress)
		}
		if r.progress.unfinished() == 0 || time.Since(r.began) > giveUp {
			break
		}
	}
	if len(r.kills) == 0 {
		return errors.New("all jobs were done before a worker could be killed; enqueue more of them")
	}
	return nil
}

// killOne kills a worker that runs many jobs once 40 % of all jobs are done, and starts
// another. Later it notes which jobs the killed worker held.
func (r *stage) killOne(ctx context.Context) error {
	victim := r.workers[r.Workers-2]
	switch {
	case victim.Killed.IsZero():
		busy := r.progress.Workers[r.Workers-2].Running
		done := r.progress.done() * 100 / r.Jobs
		if done < 40 || busy == 0 || busy < concurrency/2 && done < 60 {
			return nil
		}
		if err := r.rec.Fault(victim.Name, "killed", victim.Kill); err != nil {
			return err
		}
		if err := r.startOne(); err != nil {
			return err
		}
		r.addEvent("%s killed (SIGKILL) at its work; %s takes its place", victim.Name, r.workers[len(r.workers)-1].Name)
	case len(r.kills) == 0 && time.Since(victim.Killed) > settle:
		running, err := r.DB.List(ctx, dibs.Filter{Queue: Queue, State: dibs.Running, Limit: 1000})
		if err != nil {
			return err
		}
		k := Kill{Worker: victim.Name, At: victim.Killed}
		for _, job := range running.Jobs {
			if job.Worker == victim.Name {
				k.Held = append(k.Held, job)
			}
		}
		r.kills = append(r.kills, k)
		r.addEvent("%s left %d jobs; nobody may touch them before their leases end", victim.Name, len(k.Held))
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

// killAll ends the workers that still run if the demo ends early.
func (r *stage) killAll() {
	for _, p := range r.workers {
		_ = p.Kill() // the demo ends in any case
	}
	if r.rec != nil {
		_ = r.rec.Close() // if the recorder could not write a call's answer, the call counts as one without an answer
	}
}

func (r *stage) evidence(ctx context.Context) (Evidence, error) {
	e, err := history.Collect(ctx, r.DB, r.Dir)
	e.Slack, e.OrderSlack = slack, slack
	return Evidence{Evidence: e, Plan: r.plan, Kills: r.kills}, err
}
