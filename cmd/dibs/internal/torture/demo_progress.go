package torture

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// WorkerProgress says how many jobs one worker process of a demo has run.
type WorkerProgress struct {
	Name      string
	Completed int // completed attempts
	Failed    int // other finished attempts
	Running   int
	Killed    bool
	Held      int // how many jobs it held when it was killed; 0 until that is known
	Recovered int // how many of the jobs that the victim held have run again
}

// Note is one line about what happened in a demo.
type Note struct {
	At   time.Duration // time since the start of the run
	Text string
}

func (d *demo) addNote(at time.Time, text string, args ...any) {
	// The viewer may keep the slice that it was shown, so each note makes a new one.
	d.notes = append(slices.Clip(d.notes), Note{At: at.Sub(d.Began), Text: fmt.Sprintf(text, args...)})
}

// follow adds to the progress what the records say, and kills a worker once. It reports whether all
// jobs have ended.
func (d *demo) follow(ctx context.Context, p *Progress) (ended bool, err error) {
	calls, err := d.records.Read(d.Dir)
	if err != nil {
		return false, err
	}
	p.Jobs, p.Workers = d.Jobs, d.workers(calls)
	err = d.killOne(ctx, p)
	p.Notes = d.notes
	return p.Done() == 1, err
}

// workers counts what each worker process has done so far.
func (d *demo) workers(calls []*history.Call) []WorkerProgress {
	workers := make([]WorkerProgress, len(d.seats))
	byName := map[string]*WorkerProgress{}
	for i, s := range d.seats {
		workers[i] = WorkerProgress{Name: s.Name, Killed: !s.Process().Killed.IsZero()}
		byName[s.Name] = &workers[i]
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
	for _, k := range d.kills {
		ranAgain, latest := k.ranAgainAfter(calls), time.Duration(0)
		for _, took := range ranAgain {
			latest = max(latest, took)
		}
		w := byName[k.worker]
		w.Running, w.Held, w.Recovered = 0, len(k.held), len(ranAgain)
		if w.Recovered == w.Held && !d.recoveryShown {
			d.recoveryShown = true
			d.addNote(k.at.Add(latest), "all %d jobs of %s run elsewhere, the last %v after the kill", w.Held, w.Name, latest.Round(10*time.Millisecond))
		}
	}
	return workers
}
