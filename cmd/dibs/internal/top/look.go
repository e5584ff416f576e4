package top

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/holdups"
)

// topJobs is the largest number of running jobs, and of dead jobs, in a snapshot.
const topJobs = 200

// topQuery says what a snapshot contains besides the queues.
type topQuery struct {
	queue string // only jobs of this queue; "": of all queues
	job   int64  // the opened job; 0: none
}

// snapshot is the state of the database that top shows.
type snapshot struct {
	query topQuery
	at    time.Time // time of the query, by this machine's clock

	queues                []admin.QueueStats
	why                   holdups.Look
	running, dead         []*dibs.RawJob
	runningMore, deadMore bool         // there are more such jobs than topJobs
	job                   *dibs.RawJob // nil if the opened job no longer exists
}

// readSnapshot reads a snapshot.
func readSnapshot(ctx context.Context, db cmdline.JobTable, q topQuery) (snapshot, error) {
	s := snapshot{query: q, at: time.Now()}
	var err error
	if s.queues, err = db.Stats(ctx); err != nil {
		return s, err
	}
	if s.why, err = holdups.Read(ctx, db, s.queues); err != nil {
		return s, err
	}
	page, err := db.List(ctx, admin.Filter{Queue: q.queue, State: dibs.Running, Limit: topJobs})
	if err != nil {
		return s, err
	}
	s.running, s.runningMore = page.Jobs, page.Next != ""
	page, err = db.List(ctx, admin.Filter{Queue: q.queue, State: dibs.Dead, Limit: topJobs})
	if err != nil && !errors.Is(err, errors.ErrUnsupported) { // an adopted table without a side table cannot list dead jobs
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
