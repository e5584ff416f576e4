package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

// session is the state of one write transaction: its statements, its time, the settings it
// has read, and the counts and groups that it must write before it commits. The writer runs
// many calls in one session; a caller's own transaction (tx.go) has one too.
type session struct {
	ctx  context.Context
	conn dibs.SQLTx
	sql  *statements

	callTime    int64             // time of the call, set by now
	clockReadAt time.Time         // when callTime was read, on the monotonic clock
	clockAhead  int64             // by how much callTime was ahead of the system's clock
	clockReads  int64             // how many times the clock was read, and so written
	calls, idle int               // how many calls of the transaction have succeeded, and found nothing to do
	changed     int64             // rows that the connection had changed before the transaction
	queues      map[string]*queue // settings read so far; nil: there is no such queue
	counts      map[string]tally
	woken       map[string]bool // queues that may have new work
	touched     map[group]bool  // groups to settle before the call ends
	// ownTokens are the tokens of claims made through a caller's transaction: while it is open
	// no other worker can take their jobs, so their leases do not end. nil in the writer's.
	ownTokens map[dibs.Token]bool
	lastSweep *time.Time // when Claim last swept; nil in a caller's transaction
	mender    *mender    // nil in a caller's transaction
	values    []any      // the parameters of an enqueue
	moreTicks bool       // the last look at schedules has left some that are due
}

// queue is a queue's settings, with the group limits that are cached.
type queue struct {
	dibs.Queue
	groupRates bool // groups may have rates
	limits     map[string]int
}

type group struct{ queue, key string }

func newSession(ctx context.Context, conn dibs.SQLTx, text *statements) *session {
	return &session{
		ctx: ctx, conn: conn, sql: text, queues: make(map[string]*queue),
		counts: make(map[string]tally), woken: make(map[string]bool), touched: make(map[group]bool),
	}
}

// exec runs one statement of sql/ and returns how many rows it changed.
func (s *session) exec(statement string, args ...any) (int64, error) {
	result, err := s.run(statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s *session) run(statement string, args ...any) (sql.Result, error) {
	return s.conn.ExecContext(s.ctx, s.sql.get(statement), args...)
}

// runText runs a statement that is not in sql/, such as a savepoint.
func (s *session) runText(text string) error {
	_, err := s.conn.ExecContext(s.ctx, text)
	return err
}

// each runs one statement of sql/ and calls f for each row.
func (s *session) each(statement string, f func(*sql.Rows) error, args ...any) error {
	return s.eachRow(s.sql.get(statement), f, args...)
}

func (s *session) eachRow(text string, f func(*sql.Rows) error, args ...any) error {
	rows, err := s.conn.QueryContext(s.ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one reads a single row into to; it reports false if there is none.
func (s *session) one(statement string, args []any, to ...any) (bool, error) {
	found := false
	err := s.each(statement, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(to...)
	}, args...)
	return found, err
}

// dataVersion changes whenever another connection has written.
func (s *session) dataVersion() (version int64, err error) {
	err = s.scan("pragma data_version", &version)
	return version, err
}

// scan reads the single row that a statement outside of sql/ returns.
func (s *session) scan(text string, to ...any) error {
	return s.eachRow(text, func(rows *sql.Rows) error { return rows.Scan(to...) })
}

// names reads a column of text.
func (s *session) names(statement string, args ...any) ([]string, error) {
	var all []string
	err := s.each(statement, func(rows *sql.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		all = append(all, name)
		return nil
	}, args...)
	return all, err
}

// now is the call's time in microseconds, on the database's clock.
func (s *session) now() (int64, error) {
	if s.callTime != 0 {
		return s.callTime, nil
	}
	s.clockReadAt = time.Now()
	s.clockReads++
	_, err := s.one("clock", nil, &s.callTime, &s.clockAhead)
	return s.callTime, err
}

// idleClock is how far ahead of the system's clock the database's may be for a transaction to be
// dropped that has changed nothing else. If the system's clock was put back by more than that, each
// transaction moves the database's on.
const idleClock = time.Second

// onlyReadTime reports whether the transaction has changed nothing but the clock.
func (s *session) onlyReadTime() (bool, error) {
	if s.clockAhead > micro(idleClock) {
		return false, nil
	}
	var changed int64
	err := s.scan("select total_changes()", &changed)
	return changed-s.changed == s.clockReads, err
}

// forgetOldTime has the next call read the clock, unless another has just read it: with an
// old time a lease that has ended would count as held.
func (s *session) forgetOldTime() {
	if time.Since(s.clockReadAt) > sharedTime {
		s.callTime = 0
	}
}

// queue returns a queue's settings, or nil if there is no such queue.
func (s *session) queue(name string) (*queue, error) {
	if q, ok := s.queues[name]; ok {
		return q, nil
	}
	var q *queue
	err := s.each("queue", func(rows *sql.Rows) error {
		var groupRates bool
		settings, err := scanQueue(rows, &groupRates)
		q = &queue{Queue: settings, groupRates: groupRates, limits: make(map[string]int)}
		return err
	}, name)
	if err == nil {
		if len(s.queues) >= maxCached { // claims may name any number of queues, also such that there are not
			clear(s.queues)
		}
		s.queues[name] = q
	}
	return q, err
}

// groupLimit is how many jobs of a group may run at once.
func (s *session) groupLimit(q *queue, key string) (int, error) {
	if key == "" {
		return 0, nil
	}
	if n, ok := q.limits[key]; ok {
		return n, nil
	}
	n := q.GroupLimit
	_, err := s.one("group_limit", []any{q.Name, key}, &n)
	if err != nil {
		return 0, err
	}
	if len(q.limits) >= maxCached {
		clear(q.limits)
	}
	q.limits[key] = n
	return n, nil
}

// maxCached is how many queues are cached at most, and how many group limits for one queue.
const maxCached = 10_000

// mark is the part of a session that a call changes. reset puts it back after a call that
// failed; the database's part is rolled back by a savepoint.
type mark struct {
	time   int64
	counts map[string]tally
	woken  map[string]bool
}

func (s *session) mark() mark {
	return mark{time: s.callTime, counts: maps.Clone(s.counts), woken: maps.Clone(s.woken)}
}

func (s *session) reset(m mark) {
	s.callTime, s.counts, s.woken = m.time, m.counts, m.woken
	clear(s.touched)
}

// wakes lists the queues that may have new work.
func (s *session) wakes() []string { return slices.Collect(maps.Keys(s.woken)) }

// tally is a change of a queue's counts.
type tally struct {
	waiting, blocked, running  int64
	completed, dead, cancelled int64
	enqueued, claimed          int64
	succeeded, failed, died    int64
	wait, run                  int64 // microseconds
}

// count has f change a queue's counts.
func (s *session) count(queue string, f func(*tally)) {
	t := s.counts[queue]
	f(&t)
	s.counts[queue] = t
}

// ended counts jobs of a final state.
func (t *tally) ended(state dibs.State, n int64) {
	switch state {
	case dibs.Completed:
		t.completed += n
	case dibs.Dead:
		t.dead += n
	default:
		t.cancelled += n
	}
}

// writeTally writes the counts that have changed, once for the whole transaction.
func (s *session) writeTally() error {
	for name, t := range s.counts {
		if t == (tally{}) {
			continue
		}
		now, err := s.now()
		if err != nil {
			return err
		}
		if _, err := s.exec("tally", name, now/minute, t.waiting, t.blocked, t.running, t.completed, t.dead, t.cancelled,
			t.enqueued, t.claimed, t.succeeded, t.failed, t.died, t.wait, t.run); err != nil {
			return err
		}
	}
	clear(s.counts)
	return nil
}

const minute = int64(time.Minute / time.Microsecond)

// jsonIDs encodes a list of ids as statements take it.
func jsonIDs(ids []int64) string {
	text, err := json.Marshal(ids)
	if err != nil {
		panic(err) // integers always encode
	}
	return string(text)
}

// null stores an empty text as null.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func nullJSON(b []byte) any { return null(string(b)) }
