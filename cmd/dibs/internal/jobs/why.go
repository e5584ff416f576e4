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
	if flows, has := db.(flowReader); err == nil && has && len(jobs) == 1 && jobs[0].WaitsFor > 0 {
		w.Flow, err = flows.Flow(ctx, jobs[0].ID, 1)
	}
	return w, stats, err
}

// flowReader is a database whose jobs can come after others.
type flowReader interface {
	Flow(ctx context.Context, id int64, most int) (admin.Flow, error)
}

// causeOf says because of what a job was cancelled: the end of another, which may have been deleted since. It reports whether
// a requeue of that job puts both back.
func causeOf(ctx context.Context, db cmdline.JobTable, j *dibs.RawJob) (text string, back bool) {
	if j.Cause == 0 {
		return "", false
	}
	cause, err := db.Get(ctx, j.Cause)
	switch {
	case err != nil:
		return fmt.Sprintf("job %d, which it comes after, did not end as it needs", j.Cause), false
	case cause.State == dibs.Dead:
		return fmt.Sprintf("job %d died", j.Cause), true
	case cause.State == dibs.Cancelled:
		return fmt.Sprintf("job %d was cancelled", j.Cause), true
	case cause.State == dibs.Completed:
		return fmt.Sprintf("job %d was completed", j.Cause), false
	}
	return fmt.Sprintf("job %d had not ended as it needs, and is %s again", j.Cause, cause.State), false
}

// becauseOf is what causeOf says, with what to do next.
func becauseOf(ctx context.Context, db cmdline.JobTable, j *dibs.RawJob) string {
	text, back := causeOf(ctx, db, j)
	if back {
		text += fmt.Sprintf(" ('dibs requeue %d' puts both back)", j.Cause)
	}
	return text
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
