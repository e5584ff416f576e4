package main

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
)

// topJobs is how many running and how many dead jobs top reads at each look.
const topJobs = 200

// topQuery is what to look at besides the queues.
type topQuery struct {
	queue string // only jobs of this queue, if not empty
	job   int64  // a job to look at closely, if not 0
}

// snapshot is what top saw at one look.
type snapshot struct {
	query topQuery
	at    time.Time // when it was asked, by this machine's clock

	queues                []dibs.QueueStats
	running, dead         []*dibs.RawJob
	runningMore, deadMore bool         // there are more such jobs than were read
	job                   *dibs.RawJob // nil if there is no such job any more
}

// look reads a snapshot.
func look(ctx context.Context, db jobTable, q topQuery) (snapshot, error) {
	s := snapshot{query: q, at: time.Now()}
	var err error
	if s.queues, err = db.Stats(ctx); err != nil {
		return s, err
	}
	page, err := db.List(ctx, dibs.Filter{Queue: q.queue, State: dibs.Running, Limit: topJobs})
	if err != nil {
		return s, err
	}
	s.running, s.runningMore = page.Jobs, page.Next != ""
	page, err = db.List(ctx, dibs.Filter{Queue: q.queue, State: dibs.Dead, Limit: topJobs})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) { // by an adopted table without a side table
		return s, err
	}
	s.dead, s.deadMore = page.Jobs, page.Next != ""
	if q.job == 0 {
		return s, nil
	}
	if s.job, err = db.Get(ctx, q.job); err != nil && !errors.Is(err, dibs.ErrNotFound) {
		return s, err
	}
	return s, nil
}
