package rowstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Concurrent is what a database needs in which other transactions write meanwhile. SQLite has none of it: there, what a
// transaction has read stays true until it ends. Nothing waits for a turn or a job: statements pass over jobs that
// others hold, and a call that needs one is made again. So no two transactions wait for each other. Settings, unique keys, and
// then claims, are waited for in the order of their names and tokens.
type Concurrent struct {
	// Turn takes a turn until the transaction ends. It never waits, and reports whether it has got the turn. Any
	// number of transactions can share a turn, but not with one that has it alone.
	Turn func(s *Session, turn Turn, queue string, shared bool) (got bool, err error)
	// LockKeys locks unique keys, whether or not a job holds them, until the transaction ends. It reports whether it has
	// got all. It may wait only if mayWait is true: then the call has found keys locked before, and this transaction has
	// none yet. Those that wait lock keys in the order of their names, so they do not wait for each other.
	LockKeys func(s *Session, keys []UniqueKey, mayWait bool) (got bool, err error)
	// Counted says that the statements which claim jobs put them at gate 3 themselves, whether or not the queue has a
	// limit: then all running jobs are counted, and no claim has to look for others.
	Counted bool
	// Certified says that the database is a cluster on whose nodes transactions run at once: locks keep out those of the same node
	// only, and of two on two nodes that write the same row, one fails. So what a call relies on it must write.
	Certified bool
	// Bar, which a cluster needs, waits until no transaction of the node shares the turn of claims, and has those of other nodes fail.
	Bar func(s *Session, queue string) error
	// Patience is how long a call is made again that needs what another transaction holds; 0: a second.
	Patience time.Duration
	// LookPart is how many times as long as a look for others' commits the pause after it is; 0: lookPart.
	LookPart time.Duration
	// Inbox says that there is a table into which programs insert jobs: see inbox.go.
	Inbox bool
	// OneWriter says that transactions run one after the other all the same, as on SQLite, which tests this mode. Then
	// a caller's transaction itself gives the places of groups, as no other transaction could meanwhile.
	OneWriter bool
}

// Turn is what only one transaction at a time may do in a queue.
type Turn string

// These are the turns. Those that say so are for all queues together.
const (
	TurnClaim Turn = "claim" // claim under a limit or a rate; other claims share it
	TurnAdmit Turn = "admit" // give the places of groups
	TurnSweep Turn = "sweep" // delete what is no longer kept, and merge counts; for all queues
	TurnQueue Turn = "queue" // delete a queue; shared by calls that add jobs or groups to it
	TurnMake  Turn = "make"  // make a queue: of those that wait for one who is rolled back, all but one would be, too
	TurnGroup Turn = "group" // set a limit or a rate of a group; the turn's name is the queue's and then the group's
	TurnFlows Turn = "flows" // look at the ends of jobs that others come after; for all queues
	TurnInbox Turn = "inbox" // take rows of the inbox
	TurnTicks Turn = "ticks" // change schedules, or enqueue the jobs of their ticks; for all queues
)

// UniqueKey is a key of a queue.
type UniqueKey struct{ Queue, Key string }

// missedTurn is how soon a claim that did not get its turn is tried again.
const missedTurn = 5 * time.Millisecond

// heldJobs is how soon the places of a group are given again if another transaction has locked one of its jobs.
// Meanwhile the group's other jobs start.
const heldJobs = 100 * time.Millisecond

// concurrent reports whether others write while the transaction is open.
func (s *Session) concurrent() bool { return s.dialect.Concurrent != nil }

// counted reports whether all running jobs are at gate 3.
func (s *Session) counted() bool { return s.concurrent() && s.dialect.Concurrent.Counted }

// certified reports whether locks do not keep out transactions of other nodes.
func (s *Session) certified() bool { return s.concurrent() && s.dialect.Concurrent.Certified }

// turn takes a turn. Without other writers it always gets it.
func (s *Session) turn(t Turn, queue string, shared bool) (bool, error) {
	if !s.concurrent() {
		return true, nil
	}
	got, err := s.dialect.Concurrent.Turn(s, t, queue, shared)
	if got && !shared {
		s.clock.time = 0 // what others did in their turns must not come after it: see bucket.Owed
	}
	return got, err
}

// needTurn takes a turn, and fails with errAgain if it does not get it: then the call is made again.
func (s *Session) needTurn(t Turn, queue string, shared bool) error {
	got, err := s.turn(t, queue, shared)
	if err == nil && !got {
		err = errAgain
	}
	return err
}

// lockKeys locks the unique keys of new jobs, before they are looked for.
func (s *Session) lockKeys(rows []checks.Row) error {
	if !s.concurrent() {
		return nil
	}
	var keys []UniqueKey
	for i := range rows {
		if rows[i].UniqueKey != "" {
			keys = append(keys, UniqueKey{rows[i].Queue, rows[i].UniqueKey})
		}
	}
	return s.lockEach(keys)
}

// lockKeysOf locks the unique keys of finished jobs before the jobs themselves, as a requeued job may hold its key
// again. It returns the keys.
func (s *Session) lockKeysOf(ids []int64) (keys []UniqueKey, err error) {
	if !s.concurrent() {
		return nil, nil
	}
	err = s.each("ended_keys", func(rows *sql.Rows) error {
		var k UniqueKey
		err := rows.Scan(&k.Queue, &k.Key)
		keys = append(keys, k)
		return err
	}, jsonIDs(ids))
	if err == nil {
		err = s.lockEach(keys)
	}
	return keys, err
}

func (s *Session) lockEach(keys []UniqueKey) error {
	if len(keys) == 0 {
		return nil
	}
	slices.SortFunc(keys, func(a, b UniqueKey) int {
		return slices.Compare([]string{a.Queue, a.Key}, []string{b.Queue, b.Key})
	})
	got, err := s.dialect.Concurrent.LockKeys(s, slices.Compact(keys), s.others.again)
	s.others.again = false
	s.clock.time = 0 // a period that had not ended by an older time may have been deleted meanwhile
	if err == nil && !got {
		err = errAgain
	}
	return err
}

// claimTurn takes the turn of a claim, and returns the queue's settings as they are in that turn; nil if the claim
// cannot go on now. A change of a limit waits for the claims that began before it, so no claim uses an old limit.
func (s *Session) claimTurn(q *queue) (*queue, error) {
	if !s.concurrent() {
		return q, nil
	}
	got, err := s.turn(TurnClaim, q.Name, !q.limited())
	if err != nil {
		return nil, err
	}
	delete(s.queues, q.Name)
	now, err := s.queue(q.Name)
	if err != nil || !got || now == nil || now.limited() != q.limited() {
		s.others.missed = true
		return nil, err
	}
	return now, nil
}

// countRunning counts the running jobs of a queue whose limit was set after these jobs were claimed. That change could not
// count them, as claims without the limit may still have been under way. left is how many jobs other transactions have
// locked; the next claim counts these.
func (s *Session) countRunning(queue string) (left int, err error) {
	if !s.concurrent() || s.counted() {
		return 0, nil
	}
	ids, err := s.ids("limits_set", queue)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	s.later("count_running", queue)
	if _, err = s.one("uncounted", []any{queue}, &left); left == 0 {
		s.later("drop_limits_set", jsonIDs(ids))
	}
	return left, err
}

// errAgain is the error of a call that needs a turn, a unique key or a job which another transaction holds. Store.write and
// Tx.do make such a call again.
var errAgain = fmt.Errorf("%w: another transaction holds what this call needs, such as a unique key or a job; try again", dibs.ErrUnavailable)

// keepQueue returns the settings of a queue to which the transaction adds rows, and keeps the queue from being deleted
// until the transaction ends. It makes a queue that does not exist.
func (s *Session) keepQueue(name string) (*queue, error) {
	if s.concurrent() && !s.kept[name] {
		if err := s.needTurn(TurnQueue, name, true); err != nil {
			return nil, err
		}
		if s.kept == nil {
			s.kept = make(map[string]bool)
		}
		s.kept[name] = true
		delete(s.queues, name) // the queue may have been deleted since its settings were read
	}
	return s.ensureQueue(name)
}

// keepQueues calls keepQueue for the queues of new jobs, in the order of their names, as other transactions may make
// the same queues.
func (s *Session) keepQueues(rows []checks.Row) error {
	if !s.concurrent() {
		return nil
	}
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Queue
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, err := s.keepQueue(name); err != nil {
			return err
		}
	}
	return nil
}

// limited reports whether claims count jobs that run or have started, so that only one claim at a time can go on.
func (q *queue) limited() bool { return isLimited(q.Queue) }

func isLimited(q dibs.Queue) bool { return q.Concurrency > 0 || q.Rate.N > 0 }

// askForPlaces leaves the touched groups to the next admission. This transaction cannot count their places, as other
// transactions may give and take some meanwhile.
func (s *Session) askForPlaces() {
	for g := range s.touched {
		s.woken[g.queue] = true
	}
	s.ask(slices.Collect(maps.Keys(s.touched)), 0)
	clear(s.touched)
}

// ask leaves wake rows of groups, so that the first admission after notBefore settles the groups. From then on claims
// pass over their jobs.
func (s *Session) ask(groups []group, notBefore int64) {
	if len(groups) == 0 {
		return
	}
	list := make([][2]string, len(groups))
	for i, g := range groups {
		list[i] = [2]string{g.queue, g.key}
	}
	s.later("wake", jsonText(list), notBefore)
}

// placesAsked reports whether groups of a queue have wake rows.
func (s *Session) placesAsked(queue string) (asked bool, err error) {
	_, err = s.one("asked", []any{queue, s.now()}, &asked)
	return asked, err
}

// askedQueues lists the queues whose groups have wake rows.
func (s *Session) askedQueues() ([]string, error) {
	if !s.concurrent() {
		return nil, nil
	}
	return s.names("asked_queues", s.now())
}

// admitting runs a claim, and before it an admission if groups of the queue have wake rows. The claim follows in a transaction of
// its own, so the turn to admit ends first. If another transaction has that turn, the claim does not wait for it. If others
// have locked jobs of groups, soon says after what time there may be places; otherwise it is 0.
func (s *Store) admitting(ctx context.Context, queue string, claim func(*Session) (claimed, error)) (c claimed, soon time.Duration, err error) {
	var admitted bool
	var placesAt int64
	c, err = call(ctx, s, "claim", nil, func(tx *Session) (c claimed, err error) {
		if err := tx.sweepIfDue(); err != nil { // not after the admission: it may leave wake rows, whose groups' jobs are then passed over
			return c, err
		}
		if s.concurrent() != nil {
			admitted, soon, placesAt, err = tx.admitAsked(queue)
		}
		if err != nil || admitted {
			return c, err
		}
		return claim(tx)
	})
	if err != nil || !admitted {
		return c, 0, err
	}
	c, err = call(ctx, s, "claim", nil, func(tx *Session) (claimed, error) {
		tx.placesAt = placesAt
		defer func() { tx.placesAt = 0 }()
		return claim(tx)
	})
	return c, soon, err
}

// admitAsked gives places in a transaction of its own, if groups of the queue wait for that. A claim that follows goes by placesAt.
func (s *Store) admitAsked(ctx context.Context, queue string) (placesAt int64, err error) {
	err = s.write(ctx, "claim", func(tx *Session) (err error) {
		var admitted bool
		if admitted, _, placesAt, err = tx.admitAsked(queue); !admitted {
			tx.idle++
		}
		return err
	})
	return placesAt, err
}

// admitAsked gives places, if groups of the queue wait for that and no other transaction has the turn to do so. If it has to be
// done again soon, as others hold jobs of the groups, placesAt is the time of the places: a claim that follows takes
// them, however slowly.
func (s *Session) admitAsked(queue string) (admitted bool, soon time.Duration, placesAt int64, err error) {
	asked, err := s.placesAsked(queue)
	if err != nil || !asked {
		return false, 0, 0, err
	}
	if err := s.admit(queue); err != nil || s.others.missed {
		return false, 0, 0, err
	}
	if s.others.jobsHeld {
		soon, placesAt = heldJobs, s.now()
	}
	return true, soon, placesAt, nil
}

// admit gives the places of the groups that have wake rows. It does so in a turn: only one transaction at a time counts
// and gives the places of a queue. Changes that it cannot see yet have their own wake rows.
func (s *Session) admit(name string) error {
	got, err := s.turn(TurnAdmit, name, false)
	if err != nil || !got {
		s.others.missed = s.others.missed || !got
		return err
	}
	delete(s.queues, name)
	q, err := s.queue(name)
	if err != nil || q == nil {
		return err
	}
	if err := s.freeGroups(q); err != nil {
		return err
	}
	if err := s.joinDue(name); err != nil {
		return err
	}
	wakes, err := s.wakeRows(name)
	if err != nil {
		return err
	}
	if err := s.settleTouched((*Session).foldStarts); err != nil {
		return err
	}
	if len(wakes) > 0 {
		s.later("drop_wakes", jsonIDs(wakes))
	}
	return nil
}

// wakeRows reads the wake rows of a queue, touches the groups that they name, and returns the rows' ids.
func (s *Session) wakeRows(queue string) (ids []int64, err error) {
	err = s.each("wakes", func(rows *sql.Rows) error {
		var id int64
		var key string
		err := rows.Scan(&id, &key)
		ids = append(ids, id)
		s.touch(queue, key)
		return err
	}, queue, maxJoin)
	return ids, err
}
