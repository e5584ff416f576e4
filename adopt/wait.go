package adopt

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/waits"
)

// Wait returns a row as soon as it has ended, as Get shows it. A row that is deleted, also
// because the mapping ends rows so, gives dibs.ErrNotFound.
func (s *Store) Wait(ctx context.Context, id int64) (*dibs.RawJob, error) {
	if err := cmp.Or(checks.Context(ctx), s.usable(s.Queue())); err != nil {
		return nil, err
	}
	return s.waits.Wait(ctx, id)
}

// lookForEnded is the function that s.waits calls to look for ended rows.
func (s *Store) lookForEnded(ctx context.Context, ids []int64) (found waits.Found, err error) {
	keys := []item{}
	missing := map[int64]bool{}
	for _, id := range ids {
		missing[id] = true
		if key, ok := s.held.key(id); ok {
			keys = append(keys, item{Key: json.RawMessage(key)})
		}
	}
	rows, err := s.fetch(ctx, s.db, keys)
	if err != nil {
		return found, adopted.Classify("", err)
	}
	jobs, err := s.readJobs(ctx, rows)
	for _, j := range jobs {
		delete(missing, j.ID)
	}
	for id := range missing {
		found.Missing = append(found.Missing, id)
	}
	found.Ended = slices.DeleteFunc(jobs, func(j *dibs.RawJob) bool { return !j.State.Final() })
	return found, adopted.Classify("", err)
}
