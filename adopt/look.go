package adopt

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dibs-queue/dibs"
)

// ID is the number by which the row with that id goes, for Get and for a Lease: of
// an id that is a whole number from 1 on, that number. Of an id of several columns
// name is a JSON array of their values.
func (s *Store) ID(name string) (int64, error) {
	if len(s.plan.keys) > 1 {
		var parts []any
		if err := json.Unmarshal([]byte(name), &parts); err != nil || len(parts) != len(s.plan.keys) {
			return 0, invalid("id", "must be a JSON array of the %d values of %v, got %.80q", len(s.plan.keys), s.plan.ID, name)
		}
		return s.named(name)
	}
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && s.plan.keys[0].kind == integer {
		return s.held.id(keyText(n)), nil
	}
	raw, err := json.Marshal([]string{name})
	if err != nil {
		return 0, err
	}
	return s.named(string(raw))
}

func (s *Store) named(key string) (int64, error) { return s.held.id(key), nil }

// keyName is a key as people write it.
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

// Get returns a row that has not been deleted. Of one that has ended it tells no state but dibs.Completed.
func (s *Store) Get(ctx context.Context, id int64) (*dibs.RawJob, error) {
	key, ok := s.held.key(id)
	if !ok {
		return nil, dibs.ErrNotFound
	}
	rows, err := s.fetch(ctx, s.db, []item{{Key: json.RawMessage(key)}})
	if err != nil {
		return nil, classify("get", err)
	}
	if len(rows) == 0 {
		return nil, dibs.ErrNotFound
	}
	return s.seen(rows[0]), nil
}

// seen is a row that was read, as a job.
func (s *Store) seen(r *row) *dibs.RawJob {
	job := s.job(r)
	if !r.attempt.Valid {
		job.Attempt = 0
	}
	if r.live {
		job.State = dibs.Running
	}
	return job
}

// List returns unfinished rows in the order in which they are claimed.
func (s *Store) List(ctx context.Context, f dibs.Filter) (dibs.Page, error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	skip := 0
	if f.After != "" {
		var err error
		if skip, err = strconv.Atoi(f.After); err != nil || skip < 0 {
			return dibs.Page{}, invalid("after", "must be what the page before gave, got %.40q", f.After)
		}
	}
	var state any
	switch {
	case f.State == dibs.Waiting || f.State == dibs.Running:
		state = string(f.State)
	case f.State != "":
		return dibs.Page{}, nil
	}
	if f.Queue != "" && f.Queue != s.Queue() {
		return dibs.Page{}, nil
	}
	rows, err := run(ctx, s.db, s.do.list, map[string]any{"n": f.Limit + 1, "skip": skip, "state": state}, scanLive)
	if err != nil {
		return dibs.Page{}, classify("list", err)
	}
	page := dibs.Page{}
	if len(rows) > f.Limit {
		rows, page.Next = rows[:f.Limit], fmt.Sprint(skip+f.Limit)
	}
	for _, r := range rows {
		page.Jobs = append(page.Jobs, s.seen(r))
	}
	return page, nil
}

// Queues is the one queue that the mapping makes of the table.
func (s *Store) Queues(context.Context) ([]dibs.Queue, error) {
	p := s.plan
	q := dibs.DefaultSettings(s.Queue())
	q.Lease, q.MaxAttempts, q.Backoff, q.GroupLimit = p.Lease, int(p.mostAttempts()), p.Backoff, max(p.Mapping.Group.Limit, 1)
	return []dibs.Queue{q}, nil
}

// Stats counts the unfinished rows; of the finished ones an adopted table does not tell.
func (s *Store) Stats(ctx context.Context) ([]dibs.QueueStats, error) {
	found, err := run(ctx, s.db, s.do.counts, map[string]any{"has": nil}, func(rows *sql.Rows) (n [3]int64, err error) {
		return n, rows.Scan(&n[0], &n[1], &n[2])
	})
	if err != nil {
		return nil, classify("stats", err)
	}
	n := found[0]
	return []dibs.QueueStats{{Queue: s.Queue(), Waiting: n[0] - n[2], Scheduled: n[0] - n[2] - n[1], Running: n[2]}}, nil
}
