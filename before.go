package dibs

import (
	"context"
	"fmt"
	"iter"
)

// BeforeStore is a store that knows which jobs a job comes after, as packages sqlite and postgres do. In a handler,
// [RawJob.Before] is easier.
type BeforeStore interface {
	// Before returns a page of the jobs that a job comes after, with their states and results, in the order of their ids:
	// up to n, 1 to 1,000, of those whose ids are greater than after. next is the after of the next page, and 0 if
	// there is none. A page may have fewer jobs than n, or none, and still a next one.
	//
	// Jobs that SQL by hand has deleted are left out, as they are gone. For a job that comes after none, or that does not
	// exist, the page is empty.
	Before(ctx context.Context, id, after int64, n int) (jobs []*RawJob, next int64, err error)
}

// Before gives the jobs that this one comes after, in the order of their ids, with their states, results and payloads,
// as Get shows them: for a job that brings together what others have done. They are kept until this job has ended. It
// works in a handler; elsewhere call the Before of a [BeforeStore].
//
// It reads them from the database in pages of up to 1,000, fewer if they are large, while the loop goes on; nothing is
// read before the first round. The first error ends the loop, and comes with no job.
func (j *RawJob) Before(ctx context.Context) iter.Seq2[*RawJob, error] {
	return func(yield func(*RawJob, error) bool) {
		store, err := j.beforeStore()
		if err != nil {
			yield(nil, err)
			return
		}
		after, n := int64(0), firstBefore
		for {
			page, next, err := store.Before(ctx, j.ID, after, n)
			if err != nil {
				yield(nil, fmt.Errorf("jobs before job %d: %w", j.ID, err))
				return
			}
			for _, b := range page {
				if !yield(b, nil) {
					return
				}
			}
			if next == 0 {
				return
			}
			after, n = next, nextBefore(page)
		}
	}
}

func (j *RawJob) beforeStore() (BeforeStore, error) {
	if j == nil || j.handling == nil || j.handling.store == nil {
		return nil, &InvalidError{"job", "is none that a worker has given to its handler; use the store's Before"}
	}
	store, ok := j.handling.store.(BeforeStore)
	if !ok {
		return nil, &InvalidError{"store", fmt.Sprintf("has no jobs that come after others (%T): they need the tables of dibs", j.handling.store)}
	}
	return store, nil
}

const (
	firstBefore = 100      // how many jobs the first page has
	mostBefore  = 1000     // how many jobs further pages have at most
	beforeBytes = 16 << 20 // about how large further pages may become
)

// nextBefore is how many jobs the next page may have, judged by the sizes of those in the last one.
func nextBefore(page []*RawJob) int {
	size := 1
	for _, b := range page {
		size += len(b.Payload) + len(b.Metadata) + len(b.Result)
		for i := range b.Errors {
			size += len(b.Errors[i].Error)
		}
	}
	return min(max(1, beforeBytes*len(page)/size), mostBefore)
}
