package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/settings"
)

// uniqueInsert is an attempt to enqueue jobs some of which have unique keys.
type uniqueInsert struct {
	s   *Store
	b   batch
	c   conn
	out []dibs.Enqueued // an answer with the id 0 is missing

	now   *time.Time          // the time of the call; nil if no job has a period or changes holders
	taken map[uniqueKey]bool  // keys whose periods the transaction has locked and that none holds
	found map[uniqueKey]int64 // the holders of keys when the others were inserted
}

type uniqueKey struct{ queue, key string }

func keyOf(r *checks.Row) uniqueKey { return uniqueKey{r.Queue, r.UniqueKey} }

// insertUnique inserts the jobs whose keys are free, and has the others meet the holders of their
// keys. It begins again if a holder has given its key up in between. An attempt locks in one order,
// so that no two wait for each other; the next begins with the first lock again, so all that this
// one has locked and inserted is undone before.
func (s *Store) insertUnique(ctx context.Context, b batch, c conn) ([]dibs.Enqueued, error) {
	const attempts = 20
	// An attempt for one job that gets no answer has inserted nothing, and locked its own key at most.
	point := &savepoint{conn: c, needed: len(b.rows) > 1}
	var u uniqueInsert
	for range attempts {
		u = uniqueInsert{s: s, b: b, c: point, out: make([]dibs.Enqueued, len(b.rows)), taken: map[uniqueKey]bool{}, found: map[uniqueKey]int64{}}
		err := u.attempt(ctx)
		if err == nil && len(u.unanswered()) == 0 {
			return u.out, point.release(ctx)
		}
		if err != nil && !errors.Is(err, settings.ErrStale) {
			point.leave(ctx)
			return nil, err
		}
		if err := errors.Join(err, point.rollBack(ctx)); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("unique key %q changed hands %d times during one call: %w", b.rows[u.unanswered()[0]].UniqueKey, attempts, dibs.ErrUnavailable)
}

// savepoint is a connection that makes a savepoint before its first statement, if one is needed.
type savepoint struct {
	conn
	needed, made bool
}

func (p *savepoint) run(ctx context.Context, list ...step) error {
	if p.needed && !p.made {
		p.made = true
		list = append([]step{{sql: "savepoint dibs_enqueue"}}, list...)
	}
	return p.conn.run(ctx, list...)
}

func (p *savepoint) rollBack(ctx context.Context) error {
	if !p.made {
		return nil
	}
	p.made = false
	return p.conn.run(ctx, step{sql: "rollback to savepoint dibs_enqueue"}, step{sql: "release savepoint dibs_enqueue"})
}

// leave undoes all after an error, even if the context has ended: the caller may go on with its transaction.
func (p *savepoint) leave(ctx context.Context) {
	if _, endsNow := p.conn.(*brief); !endsNow {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyWait)
		defer cancel()
		_ = p.rollBack(ctx) // the connection may be lost
	}
}

func (p *savepoint) release(ctx context.Context) error {
	if _, endsNow := p.conn.(*brief); endsNow || !p.made {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyWait)
	defer cancel()
	return p.conn.run(ctx, step{sql: "release savepoint dibs_enqueue"})
}

// unanswered lists the places of jobs that have no answer.
func (u *uniqueInsert) unanswered() []int {
	return slices.DeleteFunc(u.places(), func(at int) bool { return u.out[at].ID != 0 })
}

func (u *uniqueInsert) places() []int {
	places := make([]int, len(u.b.rows))
	for i := range places {
		places[i] = i
	}
	return places
}

// attempt answers each job as if it had been enqueued after those before it. It locks periods, then
// keys and then holders, each in one order, so that two batches cannot wait for each other.
func (u *uniqueInsert) attempt(ctx context.Context) error {
	if err := u.takeWindows(ctx); err != nil {
		return err
	}
	free := slices.DeleteFunc(u.places(), u.keptOut)
	if len(free) > 0 {
		if err := u.insertAbsent(ctx, free); err != nil {
			return err
		}
		if err := u.setWindows(ctx, free); err != nil {
			return err
		}
	}
	return u.meet(ctx)
}

// keptOut reports whether a period keeps out the job at this place.
func (u *uniqueInsert) keptOut(at int) bool {
	r := &u.b.rows[at]
	return !r.Period.IsZero() && !u.taken[keyOf(r)]
}

// takeWindows locks the periods of the keys, so that they stay as they are, and reads the clock.
func (u *uniqueInsert) takeWindows(ctx context.Context) error {
	var queues, keys []string
	var names []uniqueKey
	seen, changes := map[uniqueKey]bool{}, false
	for at := range u.b.rows {
		r := &u.b.rows[at]
		changes = changes || r.UniqueKey != "" && r.IfHeld != dibs.HeldKeep
		if key := keyOf(r); u.keptOut(at) && !seen[key] {
			seen[key] = true
			queues, keys, names = append(queues, r.Queue), append(keys, r.UniqueKey), append(names, key)
		}
	}
	if len(names) == 0 && !changes {
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
			var ord, id, holder *int64
			err := scan(&ord, &id, &holder)
			switch answered = true; {
			case err != nil:
			case holder != nil:
				u.found[keyOf(&part[*ord-1])] = *holder
			case ord != nil:
				meant[*id] = places[*ord-1]
			default:
				u.out[meant[*id]].ID = *id
			}
			return err
		},
	})
	if err == nil && !answered {
		return settings.ErrStale
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
func (u *uniqueInsert) heldKeys() []heldKey {
	type entry struct {
		uniqueKey
		live bool
	}
	inserted := map[uniqueKey]int{}
	for at, e := range u.out {
		if e.ID != 0 && !e.Existing && u.b.rows[at].UniqueKey != "" {
			inserted[keyOf(&u.b.rows[at])] = at
		}
	}
	var list []heldKey
	seen := map[entry]int{}
	for _, at := range u.unanswered() {
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

// meet answers jobs whose keys are held. If a holder has given its key up meanwhile, jobs that were
// not to change it meet it all the same: during the call there was a time when it held the key. Others
// get no answer.
func (u *uniqueInsert) meet(ctx context.Context) error {
	if err := u.changeHolders(ctx, slices.DeleteFunc(u.heldKeys(), func(h heldKey) bool { return !h.changes })); err != nil {
		return err
	}
	kept := u.heldKeys()
	err := u.onHeld(ctx, "holders", kept, func(scan func(...any) error) error {
		var ord, id int64
		if err := scan(&ord, &id); err != nil {
			return err
		}
		u.holds(&kept[ord-1], id)
		return nil
	})
	for i := range kept {
		h := &kept[i]
		if id := u.found[h.uniqueKey]; id != 0 && u.out[h.places[0]].ID == 0 && h.live && !h.changes {
			u.holds(h, id)
		}
	}
	return err
}

// holds answers jobs that a job holds their key.
func (u *uniqueInsert) holds(h *heldKey, id int64) {
	for _, at := range h.places {
		u.out[at] = dibs.Enqueued{ID: id, Existing: true}
	}
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
