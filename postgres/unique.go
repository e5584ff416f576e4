package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// uniqueInsert is an enqueue of jobs some of which have unique keys.
type uniqueInsert struct {
	s   *Store
	b   batch
	c   conn
	out []dibs.Enqueued // an answer with the id 0 is missing

	now   *time.Time         // the time of the call; nil if no job has a period or changes holders
	taken map[uniqueKey]bool // keys whose periods the transaction has locked and that none holds
}

type uniqueKey struct{ queue, key string }

func keyOf(r *checks.Row) uniqueKey { return uniqueKey{r.Queue, r.UniqueKey} }

// insertUnique inserts the jobs whose keys are free, has the others meet the holders of their
// keys, and begins again with the keys that became free in between.
func (s *Store) insertUnique(ctx context.Context, b batch, c conn) ([]dibs.Enqueued, error) {
	u := uniqueInsert{s: s, b: b, c: c, out: make([]dibs.Enqueued, len(b.rows)), taken: map[uniqueKey]bool{}}
	left := make([]int, len(b.rows)) // places in rows still without an answer
	for i := range left {
		left[i] = i
	}
	const rounds = 20
	for round := range rounds {
		err := u.round(ctx, left)
		if round > 0 && errors.Is(err, errStale) {
			// Another round would insert the first round's jobs twice.
			err = fmt.Errorf("settings changed meanwhile: %w", dibs.ErrUnavailable)
		}
		if err != nil {
			return nil, err
		}
		if left = u.unanswered(left); len(left) == 0 {
			return u.out, nil
		}
	}
	return nil, fmt.Errorf("unique key %q changed hands %d times during one call: %w", b.rows[left[0]].UniqueKey, rounds, dibs.ErrUnavailable)
}

func (u *uniqueInsert) unanswered(places []int) []int {
	return slices.DeleteFunc(slices.Clone(places), func(at int) bool { return u.out[at].ID != 0 })
}

// round answers each job as if it had been enqueued after those before it. It locks periods, then
// keys and then holders, each in one order, so that two batches cannot wait for each other.
func (u *uniqueInsert) round(ctx context.Context, left []int) error {
	if err := u.takeWindows(ctx, left); err != nil {
		return err
	}
	free := slices.DeleteFunc(slices.Clone(left), func(at int) bool { return u.keptOut(at) })
	if len(free) > 0 {
		if err := u.insertAbsent(ctx, free); err != nil {
			return err
		}
		if err := u.setWindows(ctx, free); err != nil {
			return err
		}
	}
	return u.meet(ctx, left)
}

// keptOut reports whether a period keeps out the job at this place.
func (u *uniqueInsert) keptOut(at int) bool {
	r := &u.b.rows[at]
	return !r.Period.IsZero() && !u.taken[keyOf(r)]
}

// takeWindows locks the periods of the keys, so that they stay as they are, and reads the clock.
func (u *uniqueInsert) takeWindows(ctx context.Context, left []int) error {
	var queues, keys []string
	var names []uniqueKey
	seen, changes := map[uniqueKey]bool{}, false
	for _, at := range left {
		r := &u.b.rows[at]
		changes = changes || r.UniqueKey != "" && r.IfHeld != dibs.HeldKeep
		if key := keyOf(r); u.keptOut(at) && !seen[key] {
			seen[key] = true
			queues, keys, names = append(queues, r.Queue), append(keys, r.UniqueKey), append(names, key)
		}
	}
	if len(names) == 0 && (u.now != nil || !changes) {
		return nil
	}
	u.now = new(time.Time)
	return u.c.run(ctx, step{sql: u.s.sql.get("take_windows"), args: []any{queues, keys}, row: func(scan func(...any) error) error {
		var ord *int64
		err := scan(u.now, &ord)
		if ord != nil {
			u.taken[names[*ord-1]] = true
		}
		return err
	}})
}

// setWindows begins the periods of those jobs that were inserted.
func (u *uniqueInsert) setWindows(ctx context.Context, inserted []int) error {
	var queues, keys []string
	var untils []time.Time
	var ids []int64
	for _, at := range inserted {
		if r := &u.b.rows[at]; !r.Period.IsZero() && u.out[at].ID != 0 {
			queues, keys = append(queues, r.Queue), append(keys, r.UniqueKey)
			untils, ids = append(untils, r.Period.End(*u.now)), append(ids, u.out[at].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return u.c.run(ctx, step{sql: u.s.sql.get("set_windows"), args: []any{queues, keys, untils, ids}})
}

func (u *uniqueInsert) insertAbsent(ctx context.Context, places []int) error {
	part := make([]checks.Row, len(places))
	keys, untils := make([]*string, len(part)), make([]*string, len(part))
	for i, at := range places {
		part[i] = u.b.rows[at]
		if part[i].UniqueKey != "" {
			keys[i], untils[i] = &part[i].UniqueKey, (*string)(&part[i].UniqueUntil)
		}
	}
	answered, meant := false, map[int64]int{} // the place of each id
	text, args := u.s.withWide("enqueue_unique", part, append(u.s.columns(part), keys, untils, u.b.queues, u.b.versions, u.now))
	err := u.c.run(ctx, step{
		sql:  text,
		args: args,
		row: func(scan func(...any) error) error {
			var ord *int64
			var id int64
			err := scan(&ord, &id)
			if answered = true; ord != nil {
				meant[id] = places[*ord-1]
			} else if err == nil {
				u.out[meant[id]].ID = id
			}
			return err
		},
	})
	if err == nil && !answered {
		return errStale
	}
	return err
}

// heldKey is a key that another job holds.
type heldKey struct {
	uniqueKey
	live    bool  // a live job may hold it
	period  bool  // a period holds it: takeWindows has found that
	changes bool  // a job changes the holder
	places  []int // places of the jobs with the key, in their order
}

// heldKeys lists the keys of jobs that have no answer. If a job without a period was inserted,
// those before it that a period kept out do not meet it.
func (u *uniqueInsert) heldKeys(places []int) []heldKey {
	type entry struct {
		uniqueKey
		live bool
	}
	inserted := map[uniqueKey]int{}
	for _, at := range places {
		if e := u.out[at]; e.ID != 0 && !e.Existing && u.b.rows[at].UniqueKey != "" {
			inserted[keyOf(&u.b.rows[at])] = at
		}
	}
	var list []heldKey
	seen := map[entry]int{}
	for _, at := range u.unanswered(places) {
		key := keyOf(&u.b.rows[at])
		by, ok := inserted[key]
		e := entry{key, !ok || by < at}
		i, ok := seen[e]
		if !ok {
			i = len(list)
			seen[e] = i
			list = append(list, heldKey{uniqueKey: key, live: e.live})
		}
		h := &list[i]
		h.period = h.period || u.keptOut(at)
		h.changes = h.changes || u.b.rows[at].IfHeld != dibs.HeldKeep
		h.places = append(h.places, at)
	}
	return list
}

// onHeld runs holders.sql or lock_holders.sql, and calls row for each holder.
func (u *uniqueInsert) onHeld(ctx context.Context, name string, held []heldKey, row func(scan func(...any) error) error) error {
	if len(held) == 0 {
		return nil
	}
	queues, live, periods := make([]string, len(held)), make([]*string, len(held)), make([]*string, len(held))
	for i := range held {
		h := &held[i]
		if queues[i] = h.queue; h.live {
			live[i] = &h.key
		}
		if h.period {
			periods[i] = &h.key
		}
	}
	return u.c.run(ctx, step{sql: u.s.sql.get(name), args: []any{queues, live, periods}, row: row})
}

// meet answers jobs whose keys are held. Those whose keys are free by now get no answer.
func (u *uniqueInsert) meet(ctx context.Context, places []int) error {
	if err := u.changeHolders(ctx, slices.DeleteFunc(u.heldKeys(places), func(h heldKey) bool { return !h.changes })); err != nil {
		return err
	}
	kept := u.heldKeys(places)
	return u.onHeld(ctx, "holders", kept, func(scan func(...any) error) error {
		var ord, id int64
		if err := scan(&ord, &id); err != nil {
			return err
		}
		for _, at := range kept[ord-1].places {
			u.out[at] = dibs.Enqueued{ID: id, Existing: true}
		}
		return nil
	})
}

// changeHolders has jobs meet those holders of their keys that wait.
func (u *uniqueInsert) changeHolders(ctx context.Context, held []heldKey) error {
	c := changes{s: u.s}
	err := u.onHeld(ctx, "lock_holders", held, func(scan func(...any) error) error {
		var ord int64
		var h checks.Holder
		if err := scan(&ord, &h.ID, &h.CreatedAt, &h.RunAt); err != nil {
			return err
		}
		before := h.RunAt
		for _, at := range held[ord-1].places {
			u.out[at] = h.Meet(&u.b.rows[at], *u.now)
		}
		c.add(&h, before)
		return nil
	})
	if err != nil || len(c.ids) == 0 {
		return err
	}
	return u.c.run(ctx, c.step(u.now))
}

// changes are the parameters of replace.sql.
type changes struct {
	s      *Store
	ids    []int64
	whole  []bool // the holder becomes the job in rows; else only its run_at moves
	rows   []checks.Row
	runAts []*time.Time // nil: it stays
}

func (c *changes) add(h *checks.Holder, runAt time.Time) {
	var to *time.Time
	if !h.RunAt.Equal(runAt) {
		to = &h.RunAt
	}
	if h.New == nil && to == nil {
		return
	}
	row := checks.Row{}
	if h.New != nil {
		row = *h.New
	}
	c.ids, c.whole, c.rows, c.runAts = append(c.ids, h.ID), append(c.whole, h.New != nil), append(c.rows, row), append(c.runAts, to)
}

func (c *changes) step(now *time.Time) step {
	columns := c.s.columns(c.rows)
	text, args := c.s.withWide("replace", c.rows, []any{c.ids, c.whole, columns[1], columns[2], columns[3], columns[4], columns[7], columns[8], c.runAts, now})
	return step{sql: text, args: args}
}
