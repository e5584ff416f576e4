package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/combine"
)

const (
	// mergeBelow is the number of jobs below which calls are merged.
	mergeBelow = 100
	maxMerged  = 1000 // most jobs in one merged call
	mergeSlow  = 20 * time.Millisecond
	// mergedLockWait is how long merged outcomes wait for a locked row before each call is
	// made by itself.
	mergedLockWait = 20 * time.Millisecond
	giveBackTime   = 10 * time.Second // how long giveBack tries
	mergeBytes     = 64 << 10         // this many bytes of payload count as one more job: a statement takes 1 GB at most
)

// merged combines small calls that many goroutines make at once into few statements
// (internal/combine). A call is answered when its own rows are durable.
type merged struct {
	enqueues *combine.Calls[batch, []dibs.Enqueued]
	finishes *combine.Calls[[]dibs.Outcome, struct{}]
	extends  *combine.Calls[extension, dibs.Extended]
	claims   combine.Keyed[claimKey, *combine.Calls[dibs.ClaimRequest, []*dibs.RawJob]] // merges claims that differ in nothing but the number of jobs
}

// claimKey holds what must be equal in claims that are merged.
type claimKey struct {
	queue, worker string
	lease         time.Duration
	kinds         string
	again         bool
}

type extension struct {
	leases []dibs.Lease
	d      time.Duration
}

func (s *Store) initMerged() {
	s.merged.enqueues = merging(s, "enqueue", s.enqueueMerged, s.insertAndWake, batch.size)
	s.merged.finishes = merging(s, "finish", s.finishMerged, func(ctx context.Context, list []dibs.Outcome) (struct{}, error) {
		return struct{}{}, s.finishAlone(ctx, list)
	}, func(list []dibs.Outcome) int { return len(list) })
	s.merged.extends = merging(s, "extend", s.extendMerged, s.extendAlone, func(e extension) int { return len(e.leases) })
}

func merging[Q, A any](s *Store, call string, do func(context.Context, []Q, func(int, A, error)), alone func(context.Context, Q) (A, error), size func(Q) int) *combine.Calls[Q, A] {
	return &combine.Calls[Q, A]{Do: do, Alone: alone, Size: size, MaxSize: maxMerged, Slow: mergeSlow, Made: s.observed(call)}
}

// observed reports the size of each batch to the function given to ObserveBatches.
func (s *Store) observed(call string) func(calls int) {
	return func(calls int) {
		if f := s.batches.Load(); f != nil && *f != nil {
			(*f)(call, calls)
		}
	}
}

// refusedTogether reports whether the server rolled a batch back because of one of its calls,
// a locked row, or the time that all calls took together. Then each call may be made by
// itself. After an error of the connection nobody knows whether the batch took effect.
func refusedTogether(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (isLocked(err) || isStopped(err) || sentinelFor(err) == nil)
}

// enqueueMerged inserts the rows of several calls as if one had made them.
func (s *Store) enqueueMerged(ctx context.Context, calls []batch, answer func(int, []dibs.Enqueued, error)) {
	ids, err := s.insertAndWake(ctx, joined(calls))
	if refusedTogether(err) {
		err = combine.ErrApart
	}
	for i, b := range calls {
		if err != nil {
			answer(i, nil, err)
			continue
		}
		answer(i, ids[:len(b.rows):len(b.rows)], nil)
		ids = ids[len(b.rows):]
	}
}

// size is the number of jobs; a large payload counts as several.
func (b batch) size() int {
	bytes := 0
	for i := range b.rows {
		bytes += len(b.rows[i].Payload)
	}
	return len(b.rows) + bytes/mergeBytes
}

// joined makes one batch of several. If they were checked by different versions of a queue's
// settings, one version is old, and all are checked again.
func joined(calls []batch) (all batch) {
	n := 0
	for _, b := range calls {
		n += len(b.rows)
	}
	all.rows = make([]checks.Row, 0, n)
	type checked struct {
		queue   string
		version int64
	}
	listed := map[checked]bool{}
	for _, b := range calls {
		all.rows = append(all.rows, b.rows...)
		for i, name := range b.queues {
			if c := (checked{name, b.versions[i]}); !listed[c] {
				listed[c] = true
				all.queues, all.versions = append(all.queues, name), append(all.versions, b.versions[i])
			}
		}
	}
	return all
}

// claimCalls returns the merger for claims like r; done must be called after the claim.
func (s *Store) claimCalls(r dibs.ClaimRequest) (c *combine.Calls[dibs.ClaimRequest, []*dibs.RawJob], done func()) {
	name := claimKey{queue: r.Queue, worker: r.Worker, lease: r.Lease, again: r.Again}
	if len(r.Kinds) > 0 {
		name.kinds = fmt.Sprintf("%q", r.Kinds)
	}
	return s.merged.claims.Use(name, func() *combine.Calls[dibs.ClaimRequest, []*dibs.RawJob] {
		c := merging(s, "claim", s.claimMerged, s.claimSweeping, func(r dibs.ClaimRequest) int { return r.N })
		c.Left = s.giveBack
		return c
	})
}

// claimMerged claims for several callers at once: the first gets the best jobs.
func (s *Store) claimMerged(ctx context.Context, calls []dibs.ClaimRequest, answer func(int, []*dibs.RawJob, error)) {
	all := calls[0]
	for _, r := range calls[1:] {
		all.N, all.Ahead = all.N+r.N, all.Ahead+r.Ahead
	}
	jobs, err := s.claimSweeping(ctx, all)
	for i, r := range calls {
		n := min(r.N, len(jobs))
		answer(i, jobs[:n:n], err)
		jobs = jobs[n:]
	}
}

// giveBack releases jobs whose claimer stopped waiting before they came.
func (s *Store) giveBack(_ dibs.ClaimRequest, jobs []*dibs.RawJob) {
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Release()
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackTime)
	defer cancel()
	_ = s.finishAlone(ctx, outcomes) // if it fails, the jobs wait until their leases end
}

// finishMerged writes the outcomes of several calls. A call that names a job of an earlier
// call is made after the others.
func (s *Store) finishMerged(ctx context.Context, calls [][]dibs.Outcome, answer func(int, struct{}, error)) {
	first, later := distinct(calls, func(o dibs.Outcome) int64 { return o.ID })
	var all []dibs.Outcome
	for _, i := range first {
		all = append(all, calls[i]...)
	}
	err := s.finish(ctx, all, finisher{conn: s.db, lockWait: mergedLockWait, settle: s.settleSoon})
	if refusedTogether(err) {
		err = combine.ErrApart
	}
	for _, i := range first {
		answer(i, struct{}{}, finishErrorOf(calls[i], err))
	}
	for _, i := range later {
		answer(i, struct{}{}, combine.ErrApart)
	}
}

// distinct returns the places of the calls in two lists: later has the calls that name a job
// of an earlier call, first has the others.
func distinct[T any](calls [][]T, id func(T) int64) (first, later []int) {
	named := map[int64]bool{}
	for i, list := range calls {
		if slices.ContainsFunc(list, func(x T) bool { return named[id(x)] }) {
			later = append(later, i)
			continue
		}
		for _, x := range list {
			named[id(x)] = true
		}
		first = append(first, i)
	}
	return first, later
}

// finishErrorOf is the part of a merged Finish's error that concerns the outcomes of one call.
func finishErrorOf(list []dibs.Outcome, err error) error {
	mine := each(list, idOf)
	var some *dibs.FinishError
	if errors.As(err, &some) {
		return checks.Unfinished(dibs.FinishError{Err: some.Err, Unwritten: both(mine, some.Unwritten), Lost: both(mine, some.Lost)})
	}
	return err
}

// both returns the elements that are in both lists.
func both(a, b []int64) (in []int64) {
	for _, x := range a {
		if slices.Contains(b, x) {
			in = append(in, x)
		}
	}
	return in
}

// extendMerged extends the leases of several calls. Calls that ask for another length than
// the first call, and those that name a locked row or a job of an earlier call, are made by
// themselves.
func (s *Store) extendMerged(ctx context.Context, calls []extension, answer func(int, dibs.Extended, error)) {
	d, left, together := calls[0].d, map[int64]dibs.Lease{}, make([]bool, len(calls))
	named := func(c extension) bool {
		return slices.ContainsFunc(c.leases, func(l dibs.Lease) bool { return left[l.ID].ID != 0 })
	}
	for i, c := range calls {
		if together[i] = c.d == d && !named(c); !together[i] {
			continue
		}
		for _, l := range c.leases {
			left[l.ID] = l
		}
	}
	var all dibs.Extended
	err := s.extendLeft(ctx, left, d, &all)
	for i, c := range calls {
		if !together[i] || err == nil && named(c) {
			answer(i, dibs.Extended{}, combine.ErrApart)
			continue
		}
		mine := make([]int64, len(c.leases))
		for at, l := range c.leases {
			mine[at] = l.ID
		}
		slices.Sort(mine)
		answer(i, dibs.Extended{Lost: both(mine, all.Lost), Cancelled: both(mine, all.Cancelled), Finishing: both(mine, all.Finishing), TimedOut: both(mine, all.TimedOut)}, err)
	}
}

// gaveUp names the operation in the error of a caller whose context ended.
func gaveUp(ctx context.Context, op string, err error) error {
	if err != nil && any(err) == any(ctx.Err()) {
		return wrap(op, err)
	}
	return err
}
