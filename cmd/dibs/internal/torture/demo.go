package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// demo is the run that shows dibs to a newcomer: its jobs are enqueued before the workers start, it kills one
// worker once, and it ends with the jobs. The load says beforehand how each job must end.
type demo struct {
	*run
	load
	records       history.Reader
	kills         []kill
	notes         []Note
	recoveryShown bool // a note has said that the killed worker's jobs run again
}

const (
	demoTick      = 100 * time.Millisecond
	demoBatchSize = 1000
	// settle is how long after a kill the demo asks which jobs the worker held: the
	// server may still execute a statement that the worker sent.
	settle = 250 * time.Millisecond
)

func (r *run) demoPlan() plan {
	d := &demo{run: r, load: newLoad(r.Jobs)}
	return plan{
		begin: []step{r.describe, d.prepare, d.enqueue, d.addWorkers}, every: demoTick, follow: d.follow,
		end: []step{d.didKill}, judge: d.judge,
	}
}

func (d *demo) prepare(ctx context.Context) error {
	return d.set(ctx, settings{demoQueue, dibs.QueueChange{Lease: ptr(DemoLease), Backoff: &demoBackoff}, d.limits})
}

// enqueue enqueues the load, and then again its jobs that have unique keys.
func (d *demo) enqueue(ctx context.Context) error {
	start := time.Now()
	for jobs := range slices.Chunk(d.jobs, demoBatchSize) {
		batch := make([]dibs.NewJob, len(jobs))
		for i, j := range jobs {
			batch[i] = j.job
		}
		if _, err := d.admin.Enqueue(ctx, batch); err != nil {
			return err
		}
	}
	again, err := d.admin.Enqueue(ctx, d.duplicates)
	if err != nil {
		return err
	}
	refused := 0
	for _, e := range again {
		if e.Existing {
			refused++
		}
	}
	d.addNote(time.Now(), "all jobs enqueued in %v; %d duplicates refused (unique key)", time.Since(start).Round(time.Millisecond), refused)
	return nil
}

func (d *demo) addWorkers(context.Context) error {
	for range d.Workers {
		d.addWorker()
	}
	d.addNote(time.Now(), "%d worker processes started: %d jobs at once each, leases of %v", d.Workers, demoConcurrency, DemoLease)
	return nil
}

func (d *demo) addWorker() {
	d.addSeat(Part{Demo: true, Name: fmt.Sprintf("worker-%d", len(d.seats)+1), Of: d.Workers}, nil, d.URL)
}

// killOne kills a worker that runs many jobs once 40 % of all jobs have ended, and starts
// another. Later it notes which jobs the killed worker held.
func (d *demo) killOne(ctx context.Context, p *Progress) error {
	at := d.Workers - 2
	victim := d.seats[at]
	switch killed := victim.Process().Killed; {
	case killed.IsZero():
		busy, ended := p.Workers[at].Running, int(100*p.Done())
		if ended < 40 || busy == 0 || busy < demoConcurrency/2 && ended < 60 {
			return nil
		}
		if _, err := victim.Kill(); err != nil {
			return err
		}
		d.count(kills)
		d.addWorker()
		if err := d.crew.Start(); err != nil {
			return err
		}
		d.addNote(time.Now(), "%s killed (SIGKILL) at its work; %s takes its place", victim.Name, d.seats[len(d.seats)-1].Name)
	case len(d.kills) == 0 && time.Since(killed) > settle:
		running, err := d.DB.List(ctx, admin.Filter{Queue: demoQueue, State: dibs.Running, Limit: 1000})
		if err != nil {
			return err
		}
		k := kill{worker: victim.Name, at: killed}
		for _, job := range running.Jobs {
			if job.Worker == victim.Name {
				k.held = append(k.held, job)
			}
		}
		d.kills = append(d.kills, k)
		d.addNote(time.Now(), "%s left %d jobs; nobody may touch them before their leases end", victim.Name, len(k.held))
	}
	return nil
}

// didKill fails if all jobs had ended before a worker could be killed.
func (d *demo) didKill(context.Context) error {
	if len(d.kills) == 0 {
		return errors.New("all jobs were done before a worker could be killed; enqueue more of them")
	}
	return nil
}
