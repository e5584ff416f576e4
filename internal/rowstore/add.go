package rowstore

import (
	"database/sql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// heritage is what a job leaves to those that its end adds.
type heritage struct {
	flow      int64
	followers int // jobs that come after it, and then after those too
}

// add enqueues what the written outcomes of some jobs add. What follows such a job follows the new ones too. The
// jobs themselves have ended by then: they hold no unique keys.
func (s *Session) add(outcomes []dibs.Outcome, left map[int64]heritage) error {
	if len(left) == 0 {
		return nil
	}
	added, err := checks.AddedBy(outcomes, func(id int64) bool { _, adds := left[id]; return adds })
	if err != nil {
		return err
	}
	if err := s.fit(added.Rows); err != nil {
		return added.Explain(err)
	}
	done, err := s.insertRows(added.Rows)
	if err != nil {
		return added.Explain(err)
	}
	return s.inherit(outcomes, added, done, left)
}

// heritages reads what jobs leave whose outcomes add others.
func (s *Session) heritages(outcomes []dibs.Outcome, adding map[int64]bool) (map[int64]heritage, error) {
	if len(adding) == 0 {
		return nil, nil
	}
	var parents []int64
	for i := range outcomes {
		if adding[outcomes[i].ID] {
			parents = append(parents, outcomes[i].ID)
		}
	}
	left := make(map[int64]heritage, len(parents))
	err := s.each("heritage", func(rows *sql.Rows) error {
		var id int64
		var h heritage
		err := rows.Scan(&id, &h.flow, &h.followers)
		left[id] = h
		return err
	}, jsonIDs(parents), dibs.MaxAfter+1)
	for id, h := range left {
		if err == nil {
			err = checks.TooManyHeirs(outcomes, id, h.followers)
		}
	}
	return left, err
}

// heir is an added job, as inherit.sql reads it.
type heir struct {
	ID     int64 `json:"id"`
	Parent int64 `json:"parent"`
}

// inherit has what comes after the jobs come after those too that they have added. What an added job comes after itself
// comes only after those that come after no older job: no two may come to wait for each other.
func (s *Session) inherit(outcomes []dibs.Outcome, added checks.Added, done []dibs.Enqueued, left map[int64]heritage) error {
	followed := make(map[int]bool) // places of those that come before others of the same call
	older := make(map[int]bool)    // places of those that come after jobs that existed before
	for i := range added.Rows {
		for _, e := range added.Rows[i].Edges {
			if e.ID == 0 && !done[i].Existing {
				followed[e.Place] = true
			}
			if e.ID != outcomes[added.By[i]].ID && (e.ID != 0 || older[e.Place] || done[e.Place].Existing) {
				older[i] = true
			}
		}
	}
	marks, heirs, late := make(map[int64][]markedJob), []heir(nil), []heir(nil)
	var ids []int64
	for i, e := range done {
		if e.Existing { // another job holds the unique key
			continue
		}
		parent := outcomes[added.By[i]].ID
		h := left[parent]
		ids = append(ids, e.ID)
		marks[h.flow] = append(marks[h.flow], markedJob{e.ID, followed[i] || h.followers > 0})
		switch {
		case h.followers == 0:
		case older[i]:
			late = append(late, heir{ID: e.ID, Parent: parent})
		default:
			heirs = append(heirs, heir{ID: e.ID, Parent: parent})
		}
	}
	for flow, jobs := range marks {
		laterRows(s, "mark_flow", jobs, flow)
	}
	laterRows(s, "inherit", heirs, jsonIDs(ids), false)
	laterRows(s, "inherit", late, jsonIDs(ids), true)
	return s.err
}
