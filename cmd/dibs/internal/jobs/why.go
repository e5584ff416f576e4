package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/holdups"
)

// whyOf reads why jobs do not start, for the queues of those jobs that wait though their start has come.
func whyOf(ctx context.Context, db cmdline.JobTable, jobs ...*dibs.RawJob) (w holdups.Look, stats []admin.QueueStats, err error) {
	_, own := db.(holdups.Reader)
	waits := func(j *dibs.RawJob) bool {
		return j.State == dibs.Blocked || j.State == dibs.Waiting && !j.RunAt.After(time.Now())
	}
	if !own || !slices.ContainsFunc(jobs, waits) {
		return w, nil, nil
	}
	all, err := db.Stats(ctx)
	if err != nil {
		return w, nil, err
	}
	for _, s := range all {
		if slices.ContainsFunc(jobs, func(j *dibs.RawJob) bool { return j.Queue == s.Queue && waits(j) }) {
			stats = append(stats, s)
		}
	}
	w, err = holdups.Read(ctx, db, stats)
	w.Stats = all
	return w, stats, err
}

// holdsOf lists the reasons why a job, or a row of an adopted table, does not start.
func (a *app) holdsOf(w *holdups.Look, j *dibs.RawJob) []holdups.Hold {
	if h, is := holdups.UsedUp(j); is && a.Adopted != nil {
		return []holdups.Hold{h}
	}
	return w.OfJob(j)
}

// writeWhy prints the reasons of some queues below a list.
func (a *app) writeWhy(w *holdups.Look, stats []admin.QueueStats) {
	const most = 10
	holds := w.InQueues(stats)
	if len(holds) > 0 {
		fmt.Fprintln(a.Stdout)
	}
	for _, h := range holds[:min(len(holds), most)] {
		a.Say("%s %s", a.Paint(term.Yellow, a.Cell(h.Queue, 30)+":"), h.Text)
	}
	if more := len(holds) - most; more > 0 {
		a.Say("and %d more; see 'dibs stats --json'", more)
	}
}
