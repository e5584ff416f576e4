package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/settings"
)

// uniqueInsert is one attempt to enqueue jobs, some of which have unique keys.
type uniqueInsert struct {
	s   *Store
	b   batch
	c   conn
	out []dibs.Enqueued // the answers by place; the id 0 means that a job has no answer yet

	now   *time.Time          // the time of the call; nil if no job has a period or changes holders
	taken map[uniqueKey]bool  // keys that are free, and whose periods this transaction has locked
	found map[uniqueKey]int64 // the holders of keys at the time when the jobs with free keys were inserted
}

type uniqueKey struct{ queue, key string }

func keyOf(r *checks.Row) uniqueKey { return uniqueKey{r.Queue, r.UniqueKey} }

// insertUnique inserts jobs whose keys are free; for each other job, IfHeld says what becomes of
// the job that holds its key. It begins again if a holder has given up its key in between. An
// attempt takes all locks in one order, so that no two calls wait for each other. The next attempt
// starts with the first lock, so all that this one has locked and inserted is undone before.
func (s *Store) insertUnique(ctx context.Context, b batch, c conn) ([]dibs.Enqueued, error) {
	const attempts = 20
	_, endsNow := c.(*preceded) // enqueueAlone's transaction, in which nothing else happens
	var u uniqueInsert
	for range attempts {
		point := &preceded{conn: c, once: true}
		if len(b.rows) > 1 { // one job alone needs no savepoint: without an answer it has inserted nothing, and has locked only its own key
			point.by = []step{{sql: "savepoint dibs_enqueue"}}
		}
		u = uniqueInsert{s: s, b: b, c: point, out: make([]dibs.Enqueued, len(b.rows)), taken: map[uniqueKey]bool{}, found: map[uniqueKey]int64{}}
		err := u.attempt(ctx)
		made := len(b.rows) > 1 && point.by == nil
		switch done := err == nil && len(u.unanswered()) == 0; {
		case done && (endsNow || !made):
			return u.out, nil
		case done:
			return u.out, endSavepoint(ctx, c)
		case err != nil && !errors.Is(err, settings.ErrStale):
			if made && !endsNow {
				_ = endSavepoint(ctx, c, rollBack) // an error is ignored, as the connection may be lost
			}
			return nil, err
		}
		if made {
			err = errors.Join(err, endSavepoint(ctx, c, rollBack))
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("unique key %q changed hands %d times during one call: %w", b.rows[u.unanswered()[0]].UniqueKey, attempts, dibs.ErrUnavailable)
}

var rollBack = step{sql: "rollback to savepoint dibs_enqueue"}

// endSavepoint releases the savepoint, after rolling back to it if before is rollBack. It does so even if the context
// has ended, as the caller may go on with the transaction.
func endSavepoint(ctx context.Context, c conn, before ...step) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyWait)
	defer cancel()
	return c.run(ctx, append(before, step{sql: "release savepoint dibs_enqueue"})...)
}

// unanswered lists the places of jobs that have no answer.
func (u *uniqueInsert) unanswered() []int {
	return u.places(func(at int) bool { return u.out[at].ID == 0 })
}

// places lists the places of the jobs for which the function returns true.
func (u *uniqueInsert) places(of func(at int) bool) (places []int) {
	for at := range u.b.rows {
		if of(at) {
			places = append(places, at)
		}
	}
	return places
}

// attempt tries to give each job the answer that it would get if the jobs were enqueued one after
// the other. It locks periods, then keys, then holders, each in one order, so that two batches
// cannot wait for each other.
func (u *uniqueInsert) attempt(ctx context.Context) error {
	if err := u.takeWindows(ctx); err != nil {
		return err
	}
	free := u.places(func(at int) bool { return !u.keptOut(at) })
	if len(free) > 0 {
		if err := u.insertAbsent(ctx, free); err != nil {
			return err
		}
		if err := u.setWindows(ctx, free); err != nil {
			return err
		}
	}
	return u.answerHeld(ctx)
}

// keptOut reports whether a period that has not ended keeps out the job at a place.
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
	type window struct {
		now time.Time
		ord *int64 // place of a key that no period holds; nil: the row has only the time
	}
	var free []window
	err := u.c.run(ctx, collect(u.s.step("take_windows", queues, keys), &free, func(w *window) []any { return []any{&w.now, &w.ord} }))
	for _, w := range free {
		if *u.now = w.now; w.ord != nil {
			u.taken[names[*w.ord-1]] = true
		}
	}
	return err
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
	return u.c.run(ctx, u.s.step("set_windows", queues, keys, untils, ids))
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
	type answer struct{ ord, id, holder *int64 }
	var answers []answer
	insert := u.s.withWide("enqueue_unique", part, append(u.s.columns(part), keys, untils, u.b.queues, u.b.versions, u.now))
	err := u.c.run(ctx, collect(insert, &answers, func(a *answer) []any { return []any{&a.ord, &a.id, &a.holder} }))
	if err == nil && len(answers) == 0 {
		return settings.ErrStale
	}
	meant := map[int64]int{} // place of the job with each id
	for _, a := range answers {
		switch {
		case a.holder != nil:
			u.found[keyOf(&part[*a.ord-1])] = *a.holder
		case a.ord != nil:
			meant[*a.id] = places[*a.ord-1]
		default:
			u.out[meant[*a.id]].ID = *a.id
		}
	}
	return err
}

// heldKey is a key that another job holds.
type heldKey struct {
	uniqueKey
	live    bool  // the holder may be a live job
	period  bool  // takeWindows has found that a period holds the key
	changes bool  // one of the jobs changes the holder
	places  []int // places of the jobs with this key, in their order
}

// heldKeys lists the keys of jobs that have no answer. If a job without a period was inserted,
// it does not count as the holder for jobs before it in the batch.
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
func (u *uniqueInsert) onHeld(ctx context.Context, name string, held []heldKey, row func(reads.Scan) error) error {
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
	look := u.s.step(name, queues, live, periods)
	look.row = row
	return u.c.run(ctx, look)
}

// answerHeld answers the jobs whose keys are held. If a holder has given up its key meanwhile, jobs that
// would not have changed it are answered all the same, since it held the key at some time during the
// call. Other jobs get no answer.
func (u *uniqueInsert) answerHeld(ctx context.Context) error {
	if err := u.changeHolders(ctx, slices.DeleteFunc(u.heldKeys(), func(h heldKey) bool { return !h.changes })); err != nil {
		return err
	}
	held := u.heldKeys()
	err := u.onHeld(ctx, "holders", held, func(scan reads.Scan) error {
		var ord, id int64
		if err := scan(&ord, &id); err != nil {
			return err
		}
		u.holds(&held[ord-1], id)
		return nil
	})
	for i := range held {
		h := &held[i]
		if id := u.found[h.uniqueKey]; id != 0 && u.out[h.places[0]].ID == 0 && h.live && !h.changes {
			u.holds(h, id)
		}
	}
	return err
}

// holds gives all jobs with a key the answer that the job with this id holds it.
func (u *uniqueInsert) holds(h *heldKey, id int64) {
	for _, at := range h.places {
		u.out[at] = dibs.Enqueued{ID: id, Existing: true}
	}
}

// changeHolders replaces or pushes waiting holders, as the jobs with their keys say.
func (u *uniqueInsert) changeHolders(ctx context.Context, held []heldKey) error {
	var ids []int64
	var whole []bool // true: the holder becomes the job in rows; false: only its run_at changes
	var rows []checks.Row
	var runAts []*time.Time // the new run_at; nil: it does not change
	err := u.onHeld(ctx, "lock_holders", held, func(scan reads.Scan) error {
		var ord int64
		var h checks.Holder
		if err := scan(&ord, &h.ID, &h.CreatedAt, &h.RunAt); err != nil {
			return err
		}
		before, row := h.RunAt, checks.Row{}
		for _, at := range held[ord-1].places {
			u.out[at] = h.Meet(&u.b.rows[at], *u.now)
		}
		var to *time.Time
		if !h.RunAt.Equal(before) {
			to = &h.RunAt
		}
		if h.New != nil {
			row = *h.New
		}
		if h.New != nil || to != nil {
			ids, whole, rows, runAts = append(ids, h.ID), append(whole, h.New != nil), append(rows, row), append(runAts, to)
		}
		return nil
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	c := u.s.columns(rows)
	return u.c.run(ctx, u.s.withWide("replace", rows, []any{ids, whole, c[1], c[2], c[3], c[4], c[7], c[8], runAts, u.now}))
}

// keyWait is how long an Enqueue waits for an open transaction that has enqueued a job with the same unique key.
// Until that transaction ends, nobody knows whether the job exists.
const keyWait = 5 * time.Second

// keyTurn makes calls of this process that each enqueue one job with the same unique key wait for each other before
// they take a connection. Otherwise all connections could soon wait for one transaction. The caller calls done after
// its transaction has ended.
func (s *Store) keyTurn(ctx context.Context, key uniqueKey) (done func(), err error) {
	turn, leave := s.keyTurns.Use(key, func() chan struct{} { return make(chan struct{}, 1) })
	timer := time.NewTimer(keyWait)
	defer timer.Stop()
	select {
	case turn <- struct{}{}:
		return func() { <-turn; leave() }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("%w: %s", dibs.ErrUnavailable, keyHeld)
	}
	leave()
	return nil, err
}

const keyHeld = "a transaction that has not ended has enqueued a job with the unique key"

// enqueueKeyed enqueues jobs of which some have unique keys, in a transaction of its own.
func (s *Store) enqueueKeyed(ctx context.Context, jobs []dibs.NewJob, enqueue func(conn) error) error {
	if len(jobs) == 1 {
		done, err := s.keyTurn(ctx, uniqueKey{jobs[0].Queue, jobs[0].UniqueKey})
		if err != nil {
			return checks.Failed("enqueue", err)
		}
		defer done()
	}
	err := s.transact(ctx, "enqueue", enqueue)
	if isLocked(err) {
		err = fmt.Errorf("%s: %w", keyHeld, err)
	}
	return err
}
