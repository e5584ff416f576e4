package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Progress says how far the demonstration has come.
type Progress struct {
	Jobs    int
	Elapsed time.Duration
	Stats   dibs.QueueStats
	Workers []WorkerProgress
	Events  []Event
}

// WorkerProgress says how many jobs one worker process has run.
type WorkerProgress struct {
	Name      string
	PID       int
	Completed int // completed attempts
	Failed    int // other finished attempts
	Running   int
	Killed    bool
	Held      int // how many jobs it held when it was killed; 0 until that is known
	Recovered int // how many of these jobs have run again
}

// Event is one line about what happened.
type Event struct {
	At   time.Duration // time since the start of the demo
	Text string
}

// done counts jobs in a final state.
func (p Progress) done() int { return int(p.Stats.Completed + p.Stats.Dead + p.Stats.Cancelled) }

// Done returns the share of the jobs that are in a final state, from 0 to 1.
func (p Progress) Done() float64 { return float64(p.done()) / float64(p.Jobs) }

func (p Progress) unfinished() int { return p.Jobs - p.done() }

func (r *stage) addEvent(text string, args ...any) { r.addEventAt(time.Now(), text, args...) }

func (r *stage) addEventAt(at time.Time, text string, args ...any) {
	// The viewer may keep the slice that Watch showed it, so each event makes a new one.
	events := append([]Event(nil), r.progress.Events...)
	r.progress.Events = append(events, Event{At: at.Sub(r.began), Text: fmt.Sprintf(text, args...)})
}

// refresh updates r.progress from the records and the database.
func (r *stage) refresh(ctx context.Context) error {
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
	r.progress.Jobs, r.progress.Elapsed = r.Jobs, time.Since(r.began)
	for _, s := range stats {
		if s.Queue == Queue {
			r.progress.Stats = s
		}
	}
	r.progress.Workers = r.workerProgress(calls)
	return nil
}

func (r *stage) workerProgress(calls []*history.Call) []WorkerProgress {
	workers := make([]WorkerProgress, len(r.workers))
	byName := map[string]*WorkerProgress{}
	for i, p := range r.workers {
		workers[i] = WorkerProgress{Name: p.Name, PID: p.OS.Pid, Killed: !p.Killed.IsZero()}
		byName[p.Name] = &workers[i]
	}
	for _, c := range calls {
		w := byName[c.Client]
		if w == nil { // the demo made the call itself
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
		ranAgain, latest := k.ranAgainAfter(calls), time.Duration(0)
		for _, took := range ranAgain {
			latest = max(latest, took)
		}
		w := byName[k.Worker]
		w.Running, w.Held, w.Recovered = 0, len(k.Held), len(ranAgain)
		if w.Recovered == w.Held && !r.recoveryShown {
			r.recoveryShown = true
			r.addEventAt(k.At.Add(latest), "all %d jobs of %s run elsewhere, the last %v after the kill", w.Held, w.Name, latest.Round(10*time.Millisecond))
		}
	}
	return workers
}
