package model

import (
	"cmp"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Enqueue inserts all jobs or none.
func (m *Model) Enqueue(jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
	m.tick()
	rows, err := checks.Jobs(jobs, func(name string) (int, error) { return m.queue(name).PayloadLimit, nil })
	if err != nil {
		return nil, err
	}
	if err := checks.NoneMissing(rows, func(id int64) bool { return m.jobs[id] == nil }); err != nil {
		return nil, err
	}
	enqueued := m.insert(rows)
	m.settle()
	return enqueued, nil
}

// insert inserts checked jobs.
func (m *Model) insert(rows []checks.Row) (enqueued []dibs.Enqueued) {
	m.left = map[int64]string{}
	for _, r := range rows {
		start := m.now.Add(r.Delay)
		if !r.RunAt.IsZero() {
			start = later(m.now, r.RunAt)
		}
		if r.UniqueKey != "" {
			if holder := m.holderFor(&r); holder != 0 {
				enqueued = append(enqueued, m.meet(holder, &r, start))
				continue
			}
		}
		q := m.queue(r.Queue)
		m.lastID++
		j := &job{holdsKey: r.UniqueKey != "", RawJob: dibs.RawJob{
			ID: m.lastID, Queue: r.Queue, Kind: r.Kind, Payload: r.Payload, Metadata: r.Metadata,
			Priority: int(r.Priority), RunAt: start, MaxAttempts: cmp.Or(r.MaxAttempts, q.MaxAttempts),
			Group: r.Group, UniqueKey: r.UniqueKey, UniqueUntil: r.UniqueUntil, CreatedAt: m.now,
		}}
		m.jobs[j.ID] = j
		m.wait(j)
		if !r.Period.IsZero() {
			m.periods[group{r.Queue, r.UniqueKey}] = period{j.ID, r.Period.End(m.now)}
		}
		q.counts.Enqueued++
		enqueued = append(enqueued, dibs.Enqueued{ID: j.ID})
	}
	m.link(rows, enqueued)
	return enqueued
}

// holder returns the live job that holds a unique key, or nil.
func (m *Model) holder(queue, key string) *job {
	for _, j := range m.jobs {
		if j.holdsKey && j.Queue == queue && j.UniqueKey == key {
			return j
		}
	}
	return nil
}

// holderFor returns the id of the job that keeps a new one out, or 0. A job that has ended keeps others out only
// during its period, and only jobs that have a period too.
func (m *Model) holderFor(r *checks.Row) int64 {
	if j := m.holder(r.Queue, r.UniqueKey); j != nil {
		return j.ID
	}
	if p := m.periods[group{r.Queue, r.UniqueKey}]; !r.Period.IsZero() && p.until.After(m.now) {
		return p.job
	}
	return 0
}

// meet does to the holder of a key what a new job says, if the holder waits.
func (m *Model) meet(id int64, r *checks.Row, start time.Time) dibs.Enqueued {
	e := dibs.Enqueued{ID: id, Existing: true}
	j := m.jobs[id]
	if j == nil || j.State != dibs.Waiting && j.State != dibs.Blocked || r.IfHeld == dibs.HeldKeep {
		return e
	}
	if last := j.CreatedAt.Add(r.DelayLimit); r.DelayLimit != 0 && start.After(last) {
		start = last
	}
	given := r.Delay != 0 || !r.RunAt.IsZero()
	if r.IfHeld == dibs.HeldPush {
		e.Pushed = true
		if start.After(m.now) && start.After(j.RunAt) {
			j.RunAt = start
			m.compete(j)
		}
		return e
	}
	e.Replaced = true
	if given || j.RunAt.After(m.now) {
		j.RunAt = later(m.now, start)
	}
	if j.Group != r.Group {
		m.pending[group{j.Queue, j.Group}] = true
		if j.holdsPlace {
			m.left[id] = j.Group
		}
		j.holdsPlace = m.AtOnce && r.Group != "" && m.left[id] == r.Group
	}
	j.Kind, j.Payload, j.Metadata, j.Priority, j.Group = r.Kind, r.Payload, r.Metadata, int(r.Priority), r.Group
	j.MaxAttempts, j.Excused = cmp.Or(r.MaxAttempts, m.queue(r.Queue).MaxAttempts), j.Attempt
	m.compete(j)
	return e
}
