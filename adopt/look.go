package adopt

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/checks"
)

// keyName writes a key for people: a single value stands without brackets and quotes.
func keyName(key string) string {
	var one []string
	if json.Unmarshal([]byte(key), &one) == nil && len(one) == 1 {
		return one[0]
	}
	var number []json.Number
	if json.Unmarshal([]byte(key), &number) == nil && len(number) == 1 {
		return number[0].String()
	}
	return key
}

// Get returns a row unless it has been deleted. The state of every ended row is dibs.Completed.
func (s *Store) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	key, ok := s.held.key(id)
	if !ok {
		return nil, dibs.ErrNotFound
	}
	rows, err := s.fetch(ctx, s.db, []item{{Key: json.RawMessage(key)}})
	if err != nil {
		return nil, adopted.Classify("get", err)
	}
	if len(rows) == 0 {
		return nil, dibs.ErrNotFound
	}
	jobs, err := s.readJobs(ctx, rows)
	if err != nil {
		return nil, adopted.Classify("get", err)
	}
	return jobs[0], nil
}

// List returns unfinished rows in the order of claims. Dead rows of the side table have to be
// asked for by their state. List cannot return rows that have ended in the table.
func (s *Store) List(ctx context.Context, f admin.Filter) (admin.Page, error) {
	if err := checks.Filter(&f); err != nil {
		return admin.Page{}, err
	}
	if f.UniqueKey != "" {
		return admin.Page{}, s.cannot("list", "has no unique keys of dibs")
	}
	if f.Worker != "" || f.Error != "" || f.Payload != "" || f.Scheduled || !f.FinishedSince.IsZero() || !f.FinishedBefore.IsZero() {
		return admin.Page{}, s.cannot("list", "cannot list rows by worker, error, payload, their time or that of their end: look at them with SQL")
	}
	skip := 0
	if f.After != "" {
		var err error
		if skip, err = strconv.Atoi(f.After); err != nil || skip < 0 {
			return admin.Page{}, adopted.Invalid("after", "must be Next of the page before, got %.40q", f.After)
		}
	}
	states := []string{string(f.State)}
	switch {
	case f.State == "":
		states = []string{string(dibs.Waiting), string(dibs.Running)}
	case f.State.Final() && (f.State != dibs.Dead || !s.plan.SideTable):
		return admin.Page{}, s.cannot("list", "has no common form of ended rows: look at "+string(f.State)+" rows with SQL")
	}
	if f.Queue != "" && f.Queue != s.Queue() || f.Kind != "" && !s.hasKind([]string{f.Kind}) || f.Group != "" && s.plan.Mapping.Group.Column == "" {
		return admin.Page{}, nil
	}
	values := map[string]any{"n": f.Limit + 1, "skip": skip, "states": jsonArray(states), "kinds": oneOrAll(f.Kind), "groups": oneOrAll(f.Group)}
	rows, err := run(ctx, s.db, s.do.List, values, scanSeen)
	if err != nil {
		return admin.Page{}, adopted.Classify("list", err)
	}
	page := admin.Page{}
	if len(rows) > f.Limit {
		rows, page.Next = rows[:f.Limit], fmt.Sprint(skip+f.Limit)
	}
	page.Jobs, err = s.readJobs(ctx, rows)
	return page, adopted.Classify("list", err)
}

// oneOrAll writes a name as a JSON array; nil for an empty name, which means all.
func oneOrAll(name string) any {
	if name == "" {
		return nil
	}
	return jsonArray([]string{name})
}

// Queues returns the mapping's only queue, unless only others are named.
func (s *Store) Queues(_ context.Context, names ...string) ([]dibs.Queue, error) {
	if len(names) > 0 && !slices.Contains(names, s.Queue()) {
		return nil, nil
	}
	p := s.plan
	q := dibs.DefaultSettings(s.Queue())
	q.Lease, q.MaxAttempts, q.Backoff, q.GroupLimit = p.Lease, p.MaxAttempts, p.Backoff, max(p.Mapping.Group.Limit, 1)
	q.Concurrency = p.Concurrency
	return []dibs.Queue{q}, nil
}

// Stats counts the rows that have not ended: those that wait, those that run, and with a side
// table the dead ones.
// As far as Known allows, it also counts the rows that have completed lately, with their average times.
// A Window of 0 means that these figures are not known.
func (s *Store) Stats(ctx context.Context) ([]admin.QueueStats, error) {
	var oldest sql.NullInt64
	var now int64
	found, err := run(ctx, s.db, s.do.Counts, map[string]any{"has": nil}, func(rows *sql.Rows) (n [4]int64, err error) {
		return n, rows.Scan(&n[0], &n[1], &n[2], &n[3], &oldest, &now)
	})
	if err != nil {
		return nil, adopted.Classify("stats", err)
	}
	n := found[0]
	stats := admin.QueueStats{Queue: s.Queue(), Waiting: n[0], Scheduled: n[0] - n[1], Running: n[2], Dead: n[3]}
	if oldest.Valid {
		stats.OldestAge = max(0, checks.Micros(now-oldest.Int64))
	}
	err = s.rates(ctx, &stats)
	return []admin.QueueStats{stats}, adopted.Classify("stats", err)
}

// readJobs turns rows that were read into jobs, with the side table's values.
func (s *Store) readJobs(ctx context.Context, rows []*row) ([]*dibs.RawJob, error) {
	if s.plan.SideTable && len(rows) > 0 {
		known, err := run(ctx, s.db, s.do.Look, map[string]any{"batch": batch(sideKeysOf(rows))}, scanBeside)
		if err != nil {
			return nil, err
		}
		matched(slices.Clone(rows), known, func(r, k *row) {
			r.attempt, r.excused, r.worker, r.errors = k.attempt, k.excused, k.worker, k.errors
			r.since, r.until = k.since, k.until
			if k.runAt.Int64 > 0 {
				r.runAt = k.runAt
			}
		})
	}
	jobs := make([]*dibs.RawJob, len(rows))
	for i, r := range rows {
		jobs[i] = s.readJob(r)
	}
	return jobs, nil
}

func (s *Store) readJob(r *row) *dibs.RawJob {
	job := s.job(r)
	if !r.attempt.Valid {
		job.Attempt = 0
	}
	switch r.state {
	case adopted.StateEnded, adopted.StateElsewhere:
		job.State = dibs.Completed
	case string(dibs.Running):
		job.State = dibs.Running
		if r.since.Valid {
			job.ClaimedAt = checks.Time(time.UnixMicro(r.since.Int64))
		}
		if r.until.Valid {
			job.LeaseUntil = checks.Time(time.UnixMicro(r.until.Int64))
		}
	case adopted.StateOverruled:
		job.State, job.Worker = dibs.Waiting, ""
	default:
		job.State, job.Worker = dibs.State(r.state), ""
	}
	return job
}
