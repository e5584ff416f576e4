package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/settings"
)

// enqueueAndWake is what Enqueue does inside of its middleware.
func (s *Store) enqueueAndWake(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	out, queues, err := s.enqueueAlone(ctx, jobs)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		s.Wake(q)
	}
	return out, nil
}

// enqueueAlone enqueues outside of a caller's transaction. A batch that is large, or has
// unique keys or jobs that come after others, takes several statements, so it gets a transaction.
func (s *Store) enqueueAlone(ctx context.Context, jobs []dibs.NewJob) (out []dibs.Enqueued, queues []string, err error) {
	if err := s.ready(ctx, "enqueue"); err != nil {
		return nil, nil, err
	}
	keyed := slices.ContainsFunc(jobs, func(j dibs.NewJob) bool { return j.UniqueKey != "" })
	if len(jobs) < copyFrom && !keyed && !comeAfter(jobs) {
		out, _, err = s.enqueue(ctx, jobs, nil)
		return out, nil, err // no queues to wake: insertAndWake has done that
	}
	inTransaction := func(c conn) error {
		if keyed {
			c = &preceded{conn: c, by: []step{waitBriefly}, once: true}
		}
		out, queues, err = s.enqueue(ctx, jobs, c)
		return err
	}
	if keyed {
		err = s.enqueueKeyed(ctx, jobs, inTransaction)
	} else {
		err = s.transact(ctx, "enqueue", inTransaction)
	}
	if err == nil && comeAfterExisting(jobs) {
		s.settleSoon()
	}
	return out, queues, err
}

// enqueue inserts through c and returns the queues that got jobs. If c is nil it uses the
// store's connections, and may merge small batches of several callers.
func (s *Store) enqueue(ctx context.Context, jobs []dibs.NewJob, c conn) ([]dibs.Enqueued, []string, error) {
	rows, err := checks.Jobs(jobs, func(string) (int, error) { return dibs.MaxPayloadLimit, nil })
	if err != nil || len(rows) == 0 {
		return []dibs.Enqueued{}, nil, wrap("enqueue", err)
	}
	return s.enqueueRows(ctx, rows, c, true)
}

// enqueueRows is enqueue for checked jobs; fit says whether to check their payloads by the
// limits of their queues.
func (s *Store) enqueueRows(ctx context.Context, rows []checks.Row, c conn, fit bool) ([]dibs.Enqueued, []string, error) {
	const rounds = 10
	for range rounds {
		b, err := s.newBatch(ctx, slices.Clone(rows), fit)
		if errors.Is(err, settings.ErrStale) { // another goroutine forgot the queue just after it was found
			continue
		}
		if err != nil {
			return []dibs.Enqueued{}, nil, wrap("enqueue", err)
		}
		out, err := s.insert(ctx, b, c)
		if err == nil {
			for i := range b.rows {
				s.queues.addLane(b.rows[i].Queue, b.rows[i].Priority)
			}
			return out, b.queues, nil
		}
		if !errors.Is(err, settings.ErrStale) {
			return nil, nil, wrap("enqueue", err)
		}
		var stale []string // queues whose settings this process has not read again since
		for i, name := range b.queues {
			if q, ok := s.queues.get(name); !ok || q.version == b.versions[i] {
				stale = append(stale, name)
			}
		}
		if len(stale) == 0 {
			continue
		}
		if _, err := s.readQueues(ctx, stale); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, checks.Failed("enqueue", settings.Overtaken("settings", rounds))
}

// batch is jobs checked by the settings of their queues.
type batch struct {
	rows     []checks.Row
	queues   []string
	versions []int64
}

// newBatch makes the batch of some jobs. It makes the queues that do not exist yet, and notes
// the version of each queue's settings.
func (s *Store) newBatch(ctx context.Context, rows []checks.Row, fit bool) (b batch, err error) {
	b.rows = rows
	var grouped []bool
	b.queues, grouped = queuesOf(b.rows)
	known, err := s.known(ctx, b.queues)
	if err == nil && fit {
		known, err = s.fit(ctx, b, known)
	}
	if err != nil {
		return b, err
	}
	if err := s.addQueues(ctx, b.queues, grouped); err != nil {
		return b, err
	}
	for _, name := range b.queues {
		q, ok := known[name]
		if !ok || !q.grouped { // addQueues may have made the queue, or marked it as grouped
			if q, ok = s.queues.get(name); !ok {
				return b, settings.ErrStale
			}
		}
		known[name] = q
		b.versions = append(b.versions, q.version)
	}
	for i := range b.rows {
		if b.rows[i].MaxAttempts == 0 {
			b.rows[i].MaxAttempts = known[b.rows[i].Queue].MaxAttempts
		}
	}
	return b, nil
}

// fit refuses payloads that are too large for their queues. It returns the settings that it has used.
func (s *Store) fit(ctx context.Context, b batch, known map[string]queueRow) (map[string]queueRow, error) {
	limit := func(name string) (int, error) {
		if q, ok := known[name]; ok {
			return q.PayloadLimit, nil
		}
		return dibs.MaxPayload, nil
	}
	err := checks.CheckPayloads(b.rows, limit)
	if err == nil || len(known) == 0 {
		return known, err
	}
	// The limit may have been raised since it was read.
	if _, err = s.readQueues(ctx, b.queues); err == nil {
		known, err = s.known(ctx, b.queues)
	}
	if err != nil {
		return nil, err
	}
	return known, checks.CheckPayloads(b.rows, limit)
}

// insert inserts a batch.
func (s *Store) insert(ctx context.Context, b batch, c conn) ([]dibs.Enqueued, error) {
	switch {
	case c != nil && b.flows():
		return s.insertFlow(ctx, b, c)
	case c != nil:
		out, _, err := s.insertWith(ctx, b, c)
		return out, err
	case len(b.rows) < mergeBelow:
		return s.merged.enqueues.Call(ctx, b)
	}
	return s.insertAndWake(ctx, b)
}

// insertWith inserts a batch in the fastest way that suits it, and reports whether it did so by COPY.
func (s *Store) insertWith(ctx context.Context, b batch, c conn) (out []dibs.Enqueued, copied bool, err error) {
	t, ok := copyTx(len(b.rows), c)
	switch {
	case slices.ContainsFunc(b.rows, func(r checks.Row) bool { return r.UniqueKey != "" }):
		out, err = s.insertUnique(ctx, b, c)
	case ok:
		out, err = s.insertCopied(ctx, b, c, t)
		return out, true, err
	default:
		out, err = s.insertPlain(ctx, b, c)
	}
	return out, false, err
}

// insertAndWake inserts in a transaction of its own. The transaction also notifies other
// processes, unless the last enqueue that did so was just before, or another is doing so now.
func (s *Store) insertAndWake(ctx context.Context, b batch) ([]dibs.Enqueued, error) {
	told := false
	var tell []step
	if s.bell.mayTell() {
		tell = []step{{
			sql: tellOthers, args: []any{s.bell.channel(), s.bell.name, named(b.queues), s.bell.lockKey()},
			begin: func() { told = false }, row: func(reads.Scan) error { told = true; return nil },
		}}
	}
	out, err := s.insertPlain(ctx, b, s.db, tell...)
	if err != nil {
		return nil, err
	}
	for _, q := range b.queues {
		s.bell.Wake(q)
		if !told {
			s.bell.notify(q)
		}
	}
	return out, nil
}

// insertPlain inserts, and runs more steps in the same round trip and transaction.
func (s *Store) insertPlain(ctx context.Context, b batch, c conn, more ...step) ([]dibs.Enqueued, error) {
	var out []dibs.Enqueued
	insert := collect(s.withWide("enqueue", b.rows, append(s.columns(b.rows), b.queues, b.versions)), &out, func(e *dibs.Enqueued) []any { return []any{&e.ID} })
	if err := c.run(ctx, append([]step{insert}, more...)...); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, settings.ErrStale
	}
	return out, nil
}

// wideFrom is the size in bytes of payload and metadata from which on they are kept in
// dibs.payload (docs/design/0009-lean.md).
const wideFrom = 512

func (s *Store) wide(r *checks.Row) bool { return len(r.Payload)+len(r.Metadata) >= s.wideFrom }

// withWide is a statement that stores jobs, with the wide payloads added to its parameters; without any, the statement
// is the plain one.
func (s *Store) withWide(name string, rows []checks.Row, args []any) step {
	var places []int32
	var payloads []string
	var metadata []*string
	for i := range rows {
		if r := &rows[i]; s.wide(r) {
			places, payloads, metadata = append(places, int32(i+1)), append(payloads, string(r.Payload)), append(metadata, textOrNil(r.Metadata))
		}
	}
	if len(places) == 0 {
		return step{sql: s.sql.plain(name), args: args}
	}
	return s.step(name, append(args, places, payloads, metadata)...)
}

func textOrNil(text []byte) *string {
	if text == nil {
		return nil
	}
	return new(string(text))
}

// columns turns rows into the arrays that enqueue.sql takes.
func (s *Store) columns(rows []checks.Row) []any {
	n := len(rows)
	var (
		queue, kind              = make([]string, n), make([]string, n)
		payload, metadata, group = make([]*string, n), make([]*string, n), make([]*string, n)
		priority                 = make([]int16, n)
		runAt                    = make([]*time.Time, n)
		delay                    = make([]int64, n)
		attempts                 = make([]int32, n)
	)
	for i := range rows {
		r := &rows[i]
		queue[i], kind[i] = r.Queue, r.Kind
		priority[i], delay[i], attempts[i] = r.Priority, r.Delay.Microseconds(), int32(r.MaxAttempts)
		if !s.wide(r) {
			payload[i], metadata[i] = textOrNil(r.Payload), textOrNil(r.Metadata)
		}
		if r.Group != "" {
			group[i] = &r.Group
		}
		if !r.RunAt.IsZero() {
			runAt[i] = &r.RunAt
		}
	}
	return []any{queue, kind, payload, metadata, priority, runAt, delay, attempts, group}
}

// queuesOf lists the queues of a batch, and whether each gets jobs with a group.
func queuesOf(rows []checks.Row) (names []string, grouped []bool) {
	places := map[string]int{}
	for i := range rows {
		at, ok := places[rows[i].Queue]
		if !ok {
			at = len(names)
			places[rows[i].Queue] = at
			names, grouped = append(names, rows[i].Queue), append(grouped, false)
		}
		grouped[at] = grouped[at] || rows[i].Group != ""
	}
	return names, grouped
}
