package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/bucket"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/reads"
	"github.com/dibs-queue/dibs/internal/settings"
	"github.com/dibs-queue/dibs/internal/wakeups"
)

// queueRow holds a queue's settings as this process last read them. Statements name the
// version that they were prepared for and do nothing if the database has another.
type queueRow struct {
	dibs.Queue
	version    int64
	grouped    bool
	groupRates bool // groups may have rates
	counted    bool
}

// limited reports whether claims need the turn: one at a time counts what may start.
func (q queueRow) limited() bool { return q.Concurrency > 0 || q.Rate.N > 0 }

// queueCache remembers queues, and the lanes that their claims scan.
type queueCache struct {
	eager bool // marks are always used: for tests

	mu    sync.Mutex
	rows  map[string]queueRow
	lanes map[string]*lanes
}

func (c *queueCache) init() {
	c.rows, c.lanes = map[string]queueRow{}, map[string]*lanes{}
}

func (c *queueCache) get(name string) (queueRow, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, ok := c.rows[name]
	return q, ok
}

// replace stores queues that were just read by their names, whatever their versions, and forgets the names that were
// not found: those queues were deleted. A caller in between sees either the old settings or the new ones. If an older
// reading overwrites a newer one, the next statement notices the wrong version and reads again. Comparing versions here
// would keep a deleted queue for ever if it was made again with a lower version.
func (c *queueCache) replace(names []string, found []queueRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		delete(c.rows, name)
	}
	for _, q := range found {
		c.rows[q.Name] = q
	}
	makeRoom(c.rows)
}

// maxCached is how many queues a store caches at most: more than one call can name.
const maxCached = 2 * dibs.MaxBatch

// makeRoom removes arbitrary queues from a cache that holds too many. A queue that is still in use is read again.
func makeRoom[T any](cache map[string]T) {
	for name := range cache {
		if len(cache) <= maxCached {
			return
		}
		delete(cache, name)
	}
}

// drop forgets all about a queue that was deleted.
func (c *queueCache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rows, name)
	delete(c.lanes, name)
}

// forgetMarks drops the marks of all queues, so that the next claims read everything.
func (c *queueCache) forgetMarks() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		l.forget()
	}
}

func (c *queueCache) addLane(queue string, priority int16) { c.lanesOf(queue).add(maxLanes, priority) }

func (c *queueCache) lanesOf(queue string) *lanes {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[queue]
	if l == nil {
		l = newLanes(c.eager)
		c.lanes[queue] = l
		makeRoom(c.lanes)
	}
	return l
}

// readQueues reads some queues, or all if names is nil, and caches them.
func (s *Store) readQueues(ctx context.Context, names []string, more ...step) ([]queueRow, error) {
	var list []queueRow
	read := collect(s.step("queues", names), &list, func(q *queueRow) []any {
		return reads.Queue(&q.Queue, &q.groupRates, &q.version, &q.grouped, &q.counted)
	})
	if err := s.upkeep.run(ctx, append([]step{read}, more...)...); err != nil {
		return nil, wrap("queues", err)
	}
	s.queues.replace(names, list)
	return list, nil
}

func us(n int64) time.Duration { return checks.Micros(n) }

// queue reads one queue now, and runs more steps in the same round trip; ok is false when it does not exist.
func (s *Store) queue(ctx context.Context, name string, more ...step) (q queueRow, ok bool, err error) {
	list, err := s.readQueues(ctx, []string{name}, more...)
	if err != nil || len(list) == 0 {
		return q, false, err
	}
	return list[0], true, nil
}

// addQueues makes the queues that do not exist yet. It has a transaction of its
// own, so that an open transaction of the caller's never holds a queue's row.
func (s *Store) addQueues(ctx context.Context, names []string, grouped []bool) error {
	for {
		var add []string
		var groups []bool
		for i, name := range names {
			if q, ok := s.queues.get(name); !ok || grouped[i] && !q.grouped {
				add, groups = append(add, name), append(groups, grouped[i])
			}
		}
		if len(add) == 0 {
			return nil
		}
		if err := s.upkeep.run(ctx, s.step("add_queue", add, groups)); err != nil {
			return wrap("add queue", err)
		}
		if _, err := s.readQueues(ctx, add); err != nil {
			return err
		}
	}
}

// Queues implements dibs.Database.
func (s *Store) Queues(ctx context.Context, names ...string) ([]dibs.Queue, error) {
	if err := s.ready(ctx, "queues"); err != nil {
		return nil, err
	}
	if len(names) > 0 {
		names = checks.QueueNames(names) // never nil, which would mean all queues
	}
	_ = s.addNewQueues(ctx, wakeups.All) // it may fail for a role that may only read: other processes make the queues
	rows, err := s.readQueues(ctx, names)
	if err != nil {
		return nil, err
	}
	list := make([]dibs.Queue, len(rows))
	for i, q := range rows {
		list[i] = q.Queue
	}
	return list, nil
}

// ChangeQueue implements dibs.Database. Two changes at the same time are both made.
func (s *Store) ChangeQueue(ctx context.Context, name string, f func(*dibs.Queue) error) (dibs.Queue, error) {
	const op = "change queue"
	if err := s.ready(ctx, op); err != nil {
		return dibs.Queue{}, err
	}
	var old queueRow
	var exists bool
	q, err := settings.ChangeQueue(name, f, func() (_ dibs.Queue, err error) {
		if old, exists, err = s.queue(ctx, name); !exists {
			return dibs.DefaultSettings(name), err
		}
		return old.Queue, err
	}, func(_, after dibs.Queue) error {
		if !exists { // make the queue now, and change it in the next round
			return settings.OrStale(false, s.addQueues(ctx, []string{name}, []bool{false}))
		}
		return wrap(op, settings.OrStale(s.writeQueue(ctx, after, old)))
	})
	if err == nil {
		s.Wake(name)
	}
	return q, err
}

// waitBriefly limits how long a change of limits waits for an admission in another transaction.
var waitBriefly = step{sql: qualify.Text("select set_config('lock_timeout', '5s', true)")}

// writeQueue stores the new settings q, made from the settings old; done is false if the database no longer has old.
func (s *Store) writeQueue(ctx context.Context, q dibs.Queue, old queueRow) (done bool, err error) {
	each, versions := bucket.Of(q.GroupRate), []int64{}
	set := column(s.step("set_queue", reads.Stored(q, old.version, each.Step, each.Slack)...), &versions)
	steps := append(s.groupLock(q.Name), set)
	if q.GroupRate != old.GroupRate {
		steps = append(steps, s.step("set_group_rates", q.Name))
	}
	if q.Order != old.Order && q.Order == dibs.Fair {
		steps = append(steps, s.step("forget_turns", q.Name, q.Strict))
	}
	if q.GroupLimit != old.GroupLimit || q.GroupRate != old.GroupRate || q.Strict != old.Strict || q.Order != old.Order && q.Order == dibs.Fair {
		steps = append(steps, s.step("wake_groups", q.Name))
	}
	if err := s.upkeep.run(ctx, steps...); err != nil || len(versions) == 0 {
		return false, err
	}
	_, _, err = s.queue(ctx, q.Name)
	return true, err
}

// known returns the settings of those queues that exist. It reads those that are not cached,
// in one statement.
func (s *Store) known(ctx context.Context, names []string) (map[string]queueRow, error) {
	known := make(map[string]queueRow, len(names))
	var unknown []string
	for _, name := range names {
		if q, ok := s.queues.get(name); ok {
			known[name] = q
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return known, nil
	}
	list, err := s.readQueues(ctx, unknown)
	for _, q := range list {
		known[q.Name] = q
	}
	return known, err
}

// newQueues are queues into which SQL functions have enqueued and that have no settings yet, or
// are not marked as grouped. The functions do not make queues: their transaction may stay open,
// and everybody who enqueues into the same new queue would wait for it. Sweeps, claims from
// queues without settings, and the listener look for new queues.
type newQueues struct {
	names   []string
	grouped []bool
}

// step finds the new queues, and also the queue named if there are jobs in it.
func (n *newQueues) step(s *Store, named string) step {
	var name string
	var grouped bool
	find := s.step("new_queues", named)
	find.begin = func() { *n = newQueues{} }
	find.row = func(scan reads.Scan) error {
		err := scan(&name, &grouped)
		n.names, n.grouped = append(n.names, name), append(n.grouped, grouped)
		return err
	}
	return find
}

// make makes the queues that were found, or marks them as grouped, and wakes the workers of this process.
func (n *newQueues) make(ctx context.Context, s *Store) error {
	if len(n.names) == 0 {
		return nil
	}
	s.queues.replace(n.names, nil) // the cache may hold a queue that somebody has deleted with SQL
	if err := s.addQueues(ctx, n.names, n.grouped); err != nil {
		return err
	}
	if err := s.upkeep.run(ctx, s.step("drop_new", n.names)); err != nil {
		return wrap("add queue", err)
	}
	s.bell.Fruitful(wakeups.All)
	for _, name := range n.names {
		s.bell.Wake(name)
	}
	return nil
}

// addNewQueues finds and makes new queues, and also the queue named if there are jobs in it.
func (s *Store) addNewQueues(ctx context.Context, named string) error {
	var n newQueues
	if err := s.upkeep.run(ctx, n.step(s, named)); err != nil {
		return wrap("add queue", err)
	}
	return n.make(ctx, s)
}

// settingsForClaim reads the settings of a queue, and makes the queue if it is new.
func (s *Store) settingsForClaim(ctx context.Context, name string, c claimer) (q queueRow, ok bool, err error) {
	var n newQueues
	steps := c.clockSteps(s)
	if _, known := s.queues.get(name); !known {
		steps = append(steps, n.step(s, name))
	}
	q, ok, err = s.queue(ctx, name, steps...)
	if err != nil || ok || !slices.Contains(n.names, name) {
		return q, ok, err
	}
	if err := n.make(ctx, s); err != nil {
		return q, false, err
	}
	return s.queue(ctx, name)
}
