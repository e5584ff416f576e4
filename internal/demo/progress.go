package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/history"
)

// Progress is how far the demonstration has come.
type Progress struct {
	Jobs    int
	Elapsed time.Duration
	Stats   dibs.QueueStats
	Workers []WorkerProgress
	Events  []Event
}

// WorkerProgress is how far one worker process has come.
type WorkerProgress struct {
	Name      string
	PID       int
	Completed int // attempts
	Failed    int
	Running   int
	Killed    bool
	Held      int // when it was killed, once that is known
	Recovered int // how many of Held have run again
}

// Event is something worth a line.
type Event struct {
	At   time.Duration // since the beginning
	Text string
}

// done counts jobs in a final state.
func (p Progress) done() int { return int(p.Stats.Completed + p.Stats.Dead + p.Stats.Cancelled) }

// Done is the part of the jobs that are in a final state, 0 to 1.
func (p Progress) Done() float64 { return float64(p.done()) / float64(p.Jobs) }

func (p Progress) left() int { return p.Jobs - p.done() }

func (r *stage) event(text string, args ...any) { r.eventAt(time.Now(), text, args...) }

func (r *stage) eventAt(at time.Time, text string, args ...any) {
	// A new slice each time: the one that was shown is the viewer's.
	events := append([]Event(nil), r.show.Events...)
	r.show.Events = append(events, Event{At: at.Sub(r.began), Text: fmt.Sprintf(text, args...)})
}

// look brings r.show up to date.
func (r *stage) look(ctx context.Context) error {
	for _, p := range r.workers {
		if err := p.Crashed(); err != nil {
			return err
		}
	}
	calls, err := r.history.Read(r.Dir)
	if err != nil {
		return err
	}
	stats, err := r.DB.Stats(ctx)
	if err != nil {
		return err
	}
	r.show.Jobs, r.show.Elapsed = r.Jobs, time.Since(r.began)
	for _, s := range stats {
		if s.Queue == Queue {
			r.show.Stats = s
		}
	}
	r.show.Workers = r.count(calls)
	return nil
}

func (r *stage) count(calls []*history.Call) []WorkerProgress {
	workers := make([]WorkerProgress, len(r.workers))
	byName := map[string]*WorkerProgress{}
	for i, p := range r.workers {
		workers[i] = WorkerProgress{Name: p.Name, PID: p.OS.Pid, Killed: !p.Killed.IsZero()}
		byName[p.Name] = &workers[i]
	}
	for _, c := range calls {
		w := byName[c.Client]
		if w == nil { // the demo's own calls
			continue
		}
		if w.Running += len(c.Jobs); c.Fate != history.Done {
			continue
		}
		for _, o := range c.Outcomes {
			w.Running--
			switch {
			case slices.Contains(c.Refused, o.ID):
			case o.Ending == dibs.EndCompleted:
				w.Completed++
			default:
				w.Failed++
			}
		}
	}
	for _, k := range r.kills {
		again, latest := k.again(calls), time.Duration(0)
		for _, took := range again {
			latest = max(latest, took)
		}
		w := byName[k.Worker]
		w.Running, w.Held, w.Recovered = 0, len(k.Held), len(again)
		if w.Recovered == w.Held && !r.told {
			r.told = true
			r.eventAt(k.At.Add(latest), "all %d jobs of %s run elsewhere, the last %v after the kill", w.Held, w.Name, latest.Round(10*time.Millisecond))
		}
	}
	return workers
}
