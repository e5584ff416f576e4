package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// comeAfter reports whether some of the jobs come after others.
func comeAfter(jobs []dibs.NewJob) bool {
	return slices.ContainsFunc(jobs, func(j dibs.NewJob) bool { return len(j.After) > 0 })
}

// comeAfterExisting reports whether some of the jobs may come after jobs that are there already.
func comeAfterExisting(jobs []dibs.NewJob) bool {
	keyed := slices.ContainsFunc(jobs, func(j dibs.NewJob) bool { return j.UniqueKey != "" })
	return slices.ContainsFunc(jobs, func(j dibs.NewJob) bool {
		return slices.ContainsFunc(j.After, func(d dibs.Dep) bool { return d.ID != 0 || keyed })
	})
}

// flows reports whether a job of the batch comes after another.
func (b *batch) flows() bool {
	return slices.ContainsFunc(b.rows, func(r checks.Row) bool { return len(r.Edges) > 0 })
}

// insertFlow inserts a batch in which jobs come after others. The batch is refused before anything is inserted, as c may be
// a caller's transaction, which goes on after that.
func (s *Store) insertFlow(ctx context.Context, b batch, c conn) ([]dibs.Enqueued, error) {
	s.sweeper.settler.seen.Store(true)
	if err := s.parentsExist(ctx, b, c); err != nil {
		return nil, err
	}
	out, copied, err := s.insertWith(ctx, b, c)
	if err != nil {
		return nil, err
	}
	gone, err := s.noJobs(ctx, c, checks.Holders(b.rows, out))
	if err != nil {
		return nil, err
	}
	f := flowOf(b.rows, out, gone)
	var steps []step
	if !copied {
		steps = append(steps, s.step("follow", f.least, f.ids, f.waits, f.followed))
	}
	if len(f.children) > 0 {
		steps = append(steps, s.step("edges", f.children, f.parents, f.needs, f.late))
	}
	if len(steps) == 0 {
		return out, nil
	}
	return out, c.run(ctx, steps...)
}

// parentsExist refuses a batch with a job that comes after one that does not exist.
func (s *Store) parentsExist(ctx context.Context, b batch, c conn) error {
	missing, err := s.noJobs(ctx, c, checks.ParentIDs(b.rows))
	return cmp.Or(err, checks.NoneMissing(b.rows, missing))
}

// noJobs tells which of the jobs do not exist.
func (s *Store) noJobs(ctx context.Context, c conn, ids []int64) (missing func(id int64) bool, err error) {
	var list []int64
	if len(ids) > 0 {
		err = c.run(ctx, column(s.step("no_jobs", ids), &list))
	}
	slices.Sort(list)
	return func(id int64) bool {
		_, found := slices.BinarySearch(list, id)
		return found
	}, err
}

// flow is what a call with jobs that come after others writes, besides the jobs.
type flow struct {
	least int64 // least of the ids
	// ids are those of the jobs that were inserted; of equal length are whether each waits for others, and whether others
	// come after it.
	ids             []int64
	waits, followed []bool
	// These have one element for each edge.
	children, parents []int64
	needs             []string
	late              []int64 // those of the parents that were there before, or held a key, each once
}

// flowOf makes the flow of a call with these answers. Of a job that was not inserted, as another holds its unique key, nothing is
// written; what comes after it comes after the holder.
func flowOf(rows []checks.Row, out []dibs.Enqueued, gone func(id int64) bool) flow {
	var f flow
	followed := followedPlaces(rows, out)
	for i := range rows {
		if out[i].Existing {
			continue
		}
		id := out[i].ID
		if f.least == 0 || id < f.least {
			f.least = id
		}
		needs := checks.Needs(rows, out, i, gone)
		f.ids, f.waits, f.followed = append(f.ids, id), append(f.waits, len(needs) > 0), append(f.followed, followed[i])
		for _, parent := range slices.Sorted(maps.Keys(needs)) {
			f.children, f.parents, f.needs = append(f.children, id), append(f.parents, parent), append(f.needs, string(needs[parent]))
		}
		for _, e := range rows[i].Edges {
			other := e.ID
			if e.ID == 0 && out[e.Place].Existing { // it may be a job of the call that another place of it names
				other = out[e.Place].ID
			}
			if needs[other] != "" {
				f.late = append(f.late, other)
			}
		}
	}
	f.late = slices.Compact(slices.Sorted(slices.Values(f.late)))
	return f
}

// followedPlaces are the places of jobs that others of the call come after; out has no elements while all are new.
func followedPlaces(rows []checks.Row, out []dibs.Enqueued) map[int]bool {
	followed := map[int]bool{}
	for i := range rows {
		if len(out) > 0 && out[i].Existing {
			continue
		}
		for _, e := range rows[i].Edges {
			if e.ID == 0 {
				followed[e.Place] = true
			}
		}
	}
	return followed
}
