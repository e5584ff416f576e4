package rowstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

// Session is the state of one write transaction: its statements, its time, the settings it
// has read, and the counts and groups that it must write before it commits. An Engine may run
// many calls in one session; a caller's own transaction has one too.
type Session struct {
	ctx     context.Context
	conn    dibs.SQLTx
	dialect *Dialect
	err     error // the first error that now or later has met in this call

	clock       clock
	calls, idle int               // how many calls in the transaction have succeeded, and how many of the successful calls found nothing to do
	queues      map[string]*queue // settings read so far; nil: there is no such queue
	counts      map[string]tally
	woken       map[string]bool // queues that may have new work
	kept        map[string]bool // queues that nobody can delete until the transaction ends: see keepQueue
	touched     map[group]bool  // groups to settle before the call ends
	// ownTokens are the tokens of claims made through a caller's transaction: while it is open
	// no other worker can take their jobs, so their leases do not end. It is nil in the
	// store's own transactions.
	ownTokens map[dibs.Token]bool
	upkeep    *Upkeep // nil in a caller's transaction
	values    []any   // the parameters of an enqueue
	others    others
	placesAt  int64 // when the places were given that the next claim takes; 0: claims take those of their own time
	moreTicks bool  // the last look at schedules has left some that are due
	flows     flows
}

// others is what a call knows of transactions beside its own.
type others struct {
	again    bool // the call is made again, as one held what it needs; false once that has served
	missed   bool // a claim or an admission did not get its turn
	jobsHeld bool // one has locked jobs of groups whose places this call has given
}

// clock is what a session knows of the time.
type clock struct {
	time   int64     // time of the call, set by now
	readAt time.Time // when it was read, on the monotonic clock
	ahead  int64     // how far it was ahead of the system's clock
	reads  int64     // how many times clock.sql has run, which writes one row each time
}

// queue is a queue's settings, and the cached limits of its groups.
type queue struct {
	dibs.Queue
	groupRates bool // groups may have rates
	version    int64
	limits     map[string]int
}

type group struct{ queue, key string }

// NewSession makes the session of a transaction on conn. ctx is that of its statements.
func NewSession(ctx context.Context, conn dibs.SQLTx, d *Dialect) *Session {
	return &Session{
		ctx: ctx, conn: conn, dialect: d, queues: make(map[string]*queue),
		counts: make(map[string]tally), woken: make(map[string]bool), touched: make(map[group]bool),
	}
}

// exec runs one statement of sql/ and returns how many rows it changed.
func (s *Session) exec(statement string, args ...any) (int64, error) {
	if s.err != nil {
		return 0, s.err
	}
	result, err := s.conn.ExecContext(s.ctx, s.dialect.Statements.Get(statement), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Exec is exec for the functions of Concurrent.
func (s *Session) Exec(statement string, args ...any) (int64, error) {
	return s.exec(statement, args...)
}

// One is one for the functions of Concurrent.
func (s *Session) One(statement string, args []any, to ...any) (bool, error) {
	return s.one(statement, args, to...)
}

// later runs a statement that writes, and of which nobody needs the result. A database on a server may send it together
// with the next one. If it fails, all statements that follow fail with its error, and so does the call.
func (s *Session) later(statement string, args ...any) {
	_, s.err = s.exec(statement, args...)
}

// each runs one statement of sql/ and calls f for each row.
func (s *Session) each(statement string, f func(*sql.Rows) error, args ...any) error {
	if s.err != nil {
		return s.err
	}
	return Each(s.ctx, s.conn, s.dialect.Statements.Get(statement), f, args...)
}

// one reads a single row into to; it reports false if there is none.
func (s *Session) one(statement string, args []any, to ...any) (bool, error) {
	found := false
	err := s.each(statement, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(to...)
	}, args...)
	return found, err
}

// names reads a column of text.
func (s *Session) names(statement string, args ...any) ([]string, error) {
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

// ids reads a column of ids.
func (s *Session) ids(statement string, args ...any) (all []int64, err error) {
	err = s.each(statement, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		all = append(all, id)
		return err
	}, args...)
	return all, err
}

// now is the call's time in microseconds, by the database's clock. If the clock cannot be read, all statements that
// follow fail, and so does the call.
func (s *Session) now() int64 {
	if s.clock.time == 0 {
		s.clock.readAt = time.Now()
		s.clock.reads++
		_, s.err = s.one("clock", nil, &s.clock.time, &s.clock.ahead)
		if note := s.dialect.NoteTime; note != nil && s.err == nil {
			note(s.clock.readAt, s.clock.time)
		}
	}
	return s.clock.time
}

// Clock is how many times the transaction has read the clock, and by how much that was ahead of the system's.
func (s *Session) Clock() (reads int64, ahead time.Duration) {
	return s.clock.reads, checks.Micros(s.clock.ahead)
}

// sharedTime is how long a reading of the clock serves the calls of one transaction.
const sharedTime = time.Millisecond

// forgetOldTime makes the next call read the clock again if the last reading is old, or if others may have written since. With
// an old time, a lease that has ended would count as held.
func (s *Session) forgetOldTime() {
	if s.concurrent() || time.Since(s.clock.readAt) > sharedTime {
		s.clock.time = 0
	}
}

// queue returns a queue's settings, or nil if there is no such queue.
func (s *Session) queue(name string) (*queue, error) {
	if q, ok := s.queues[name]; ok {
		return q, nil
	}
	var q *queue
	err := s.each("queue", func(rows *sql.Rows) error {
		q = &queue{limits: make(map[string]int)}
		return rows.Scan(reads.Queue(&q.Queue, &q.groupRates, &q.version)...)
	}, name)
	if err == nil {
		if len(s.queues) >= maxCached { // claims may name any number of queues, even ones that do not exist
			clear(s.queues)
		}
		s.queues[name] = q
	}
	return q, err
}

// maxCached is how many queues are cached at most, and how many limits of groups of one queue.
const maxCached = 10_000

// Memory is what an Engine keeps between its transactions, as nobody else has written meanwhile.
type Memory struct {
	Upkeep Upkeep // put back if the transaction fails
	queues map[string]*queue
}

// Upkeep is how far the process has come with sweeps and repairs.
type Upkeep struct {
	LastSweep time.Time // when a claim last swept
	mender    mender
}

// NewMemory makes an empty memory.
func NewMemory() *Memory { return &Memory{queues: make(map[string]*queue)} }

// Forget drops the settings of queues: somebody else may have changed them, or they were not committed.
func (m *Memory) Forget() { clear(m.queues) }

// Use has the session go on with what earlier ones have left in m.
func (s *Session) Use(m *Memory) { s.queues, s.upkeep = m.queues, &m.Upkeep }

// Run runs f as one of several calls. If it fails, the whole transaction must be rolled back.
func (s *Session) Run(f func(*Session) error) error {
	s.forgetOldTime()
	s.others, s.err, s.flows = others{}, nil, flows{moved: s.flows.moved}
	err := f(s)
	if s.err != nil {
		return s.err
	}
	if err == nil {
		s.calls++
	}
	return err
}

// Idle reports whether all calls of Run have found nothing to do.
func (s *Session) Idle() bool { return s.calls > 0 && s.idle == s.calls }

// apart runs f under a savepoint, so that f changes nothing if it fails. exec runs a statement in the same transaction.
// If lost is true, the state of the whole transaction is unknown.
func (s *Session) apart(exec func(text string) error, f func() error) (lost bool, err error) {
	if err := exec("savepoint dibs_call"); err != nil {
		return true, err
	}
	s.forgetOldTime()
	callTime, counts, woken, moved := s.clock.time, maps.Clone(s.counts), maps.Clone(s.woken), s.flows.moved
	var upkeep Upkeep
	if s.upkeep != nil {
		upkeep = *s.upkeep
	}
	if err = f(); err == nil {
		err = exec("release savepoint dibs_call")
	}
	if err == nil {
		return false, nil
	}
	s.clock.time, s.counts, s.woken, s.flows.moved = callTime, counts, woken, moved
	if s.upkeep != nil {
		*s.upkeep = upkeep
	}
	clear(s.touched)
	clear(s.queues)
	clear(s.kept)
	if exec("rollback to savepoint dibs_call") != nil {
		return true, err
	}
	_ = exec("release savepoint dibs_call") // an error is ignored: the savepoint's changes are undone already
	return false, err
}

// Wakes lists the queues that may have new work.
func (s *Session) Wakes() []string { return slices.Collect(maps.Keys(s.woken)) }

// tally is a change of a queue's counts.
type tally struct {
	waiting, blocked, running  int64
	completed, dead, cancelled int64
	enqueued, claimed          int64
	succeeded, failed, died    int64
	wait, run                  int64 // microseconds
}

// count calls f to change a queue's counts.
func (s *Session) count(queue string, f func(*tally)) {
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

// WriteTally writes the counts that have changed, once for the whole transaction.
func (s *Session) WriteTally() error {
	for name, t := range s.counts {
		if t == (tally{}) {
			continue
		}
		s.later("tally", name, s.now()/minute, t.waiting, t.blocked, t.running, t.completed, t.dead, t.cancelled,
			t.enqueued, t.claimed, t.succeeded, t.failed, t.died, t.wait, t.run)
	}
	clear(s.counts)
	return s.err
}

const minute = int64(time.Minute / time.Microsecond)

// jsonIDs encodes a list of ids as a statement's parameter.
func jsonIDs(ids []int64) string { return jsonText(ids) }

// jsonText encodes values that always encode: integers, texts and times that dibs has made.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// fullList is the size in bytes at which a list of rows is full.
const fullList = 256 << 10

// lists encodes rows as JSON arrays, as statements take them: one array, or several if there are many rows.
func lists[T any](rows []T) iter.Seq[string] {
	return func(yield func(string) bool) {
		var list bytes.Buffer
		encoder := json.NewEncoder(&list)
		encoder.SetEscapeHTML(false)
		for i := range rows {
			list.WriteByte(',')
			if err := encoder.Encode(&rows[i]); err != nil {
				panic(err) // ids, tokens, numbers, texts and times that dibs has made always encode
			}
			if i+1 < len(rows) && list.Len() < fullList {
				continue
			}
			list.WriteByte(']')
			list.Bytes()[0] = '['
			if !yield(list.String()) {
				return
			}
			list.Reset()
		}
	}
}

// laterRows runs a statement with rows as its first parameter, more than once if there are many.
func laterRows[T any](s *Session, statement string, rows []T, args ...any) {
	for list := range lists(rows) {
		s.later(statement, append([]any{list}, args...)...)
	}
}

// null stores an empty text as null.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}
