package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/holdups"
)

// A why explains why due jobs of queues do not start, and a hold is one reason for it.
type (
	why  = holdups.Look
	hold = holdups.Hold
)

// whyOf is holdups.Read for the queues of some jobs: of those that wait, if their start has come.
func whyOf(ctx context.Context, db jobTable, jobs ...*dibs.RawJob) (w why, stats []dibs.QueueStats, err error) {
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
func (a *app) holdsOf(w *why, j *dibs.RawJob) []hold {
	if h, is := holdups.UsedUp(j); is && a.adopted != nil {
		return []hold{h}
	}
	return w.OfJob(j)
}

// writeWhy prints the reasons of some queues below a list.
func (a *app) writeWhy(w *why, stats []dibs.QueueStats) {
	const most = 10
	holds := w.InQueues(stats)
	if len(holds) > 0 {
		fmt.Fprintln(a.stdout)
	}
	for _, h := range holds[:min(len(holds), most)] {
		a.say("%s %s", a.paint(yellow, a.cell(h.Queue, 30)+":"), h.Text)
	}
	if more := len(holds) - most; more > 0 {
		a.say("and %d more; see 'dibs stats --json'", more)
	}
}
