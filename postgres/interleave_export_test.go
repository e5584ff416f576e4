package postgres

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/qualify"
	"github.com/dibs-queue/dibs/internal/sqlfiles"
	"github.com/dibs-queue/dibs/internal/wakeups"
)

// SendSeparately makes the store send the statements of a transaction, and the commit, one
// by one, each in a round trip of its own after the statement clock, so that other sessions
// can run in between. turn is called with whether a statement got the turn that it takes;
// without it the statements after that do nothing. The store waits for locks without limit.
func (s *Store) SendSeparately(clock string, turn func(got bool)) {
	s.db = retryingApart{s.pool, step{sql: clock, args: []any{""}}, turn}
	s.upkeep = retryingApart{s.sidePool, step{sql: clock, args: []any{""}}, turn}
}

// JustOpened makes the store one that has just been opened, knows its role's rights, and has
// read the queue if other has. It does not sweep by itself, and its claims use no marks:
// these depend on time, and a test stops statements.
func (s *Store) JustOpened(queue string, other *Store) {
	s.queues.init()
	s.rightsChecked.Store(true) // only a store's first claim reads the role's rights
	s.SweepNever()
	s.SettleNever()
	l := s.queues.lanesOf(queue)
	l.add(maxLanes, dibs.DefaultPriority)
	l.learned = s.sweeper.sweptAt
	s.StopMarks(queue)
	if q, ok := other.queues.get(queue); ok {
		s.queues.replace(nil, []queueRow{q})
	}
}

// SweepNever makes the store sweep only when it is asked to: when a sweep is due depends on how fast the machine is.
func (s *Store) SweepNever() {
	never := time.Now().Add(24 * time.Hour)
	s.sweeper.mu.Lock()
	defer s.sweeper.mu.Unlock()
	s.sweeper.sweptAt, s.sweeper.expireCheckedAt, s.sweeper.prunedAt = never, never, never
}

// SettleNever makes the store settle only when it is asked to, and have seen no job that comes after another.
func (s *Store) SettleNever() {
	w := &s.sweeper.settler
	w.seen.Store(false)
	w.running = make(chan struct{}) // so no goroutine starts
	close(w.running)                // and Close waits for none
}

// SettleOnce makes one round of what the store's goroutine does after jobs have ended that others come after.
func (s *Store) SettleOnce(ctx context.Context) error {
	_, err := s.settleOnce(ctx, s.upkeep)
	return err
}

// MarkAlways makes claims use marks, and move them before as many claims as possible.
func (s *Store) MarkAlways() {
	s.queues.eager = true
	s.queues.init()
}

// WideAlways keeps all payloads in dibs.payload.
func (s *Store) WideAlways() { s.wideFrom = 0 }

// WideAsUsual undoes WideAlways: for a comparison with the functions, which know only the usual width.
func (s *Store) WideAsUsual() { s.wideFrom = wideFrom }

// Marked returns whether claims from the queue begin at marks, and the transactions that the
// marks have passed over.
func (s *Store) Marked(queue string) (marked bool, late []uint64) {
	m := s.queues.lanesOf(queue).marks(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.places != nil, slices.Collect(maps.Keys(m.passedOver))
}

// MarkedPast reports whether a mark of the queue has passed a job that became due at runAt.
func (s *Store) MarkedPast(queue string, runAt time.Time, id int64) bool {
	m := s.queues.lanesOf(queue).marks(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, place := range m.places {
		if (mark{runAt, id}).before(place) {
			return true
		}
	}
	return false
}

// Look moves the marks of claims for all kinds, as a claim does when it is time.
func (s *Store) Look(ctx context.Context, queue string) error {
	q, _, err := s.queue(ctx, queue)
	if err != nil {
		return err
	}
	return s.moveMarks(ctx, q, nil, s.queues.lanesOf(queue).marks(nil))
}

// StopMarks makes all claims begin at the marks of now, and move them only when they cannot go
// on without it.
func (s *Store) StopMarks(queue string) {
	m := s.queues.lanesOf(queue).marks(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.eager, m.nextMove, m.probeAt = false, time.Now().Add(time.Hour), time.Now().Add(time.Hour)
}

// TellLock is the key of the lock that an enqueue takes which tells other processes.
func (s *Store) TellLock() int64 { return s.bell.lockKey() }

// Plain is a statement without the qualification of names.
func Plain(text string) string { return qualified.ReplaceAllString(text, "$1") }

var qualified = regexp.MustCompile(`operator\(pg_catalog\.([^)]+)\)|pg_catalog\.`)

// all are all statements by name.
func (s *statements) all() map[string]string {
	for _, name := range sqlfiles.Names(files) {
		s.get(name)
	}
	for _, name := range []string{"claim", "complete", "enqueue", "enqueue_unique"} {
		s.plain(name)
	}
	for _, name := range []string{"claim", "turn_admit", "admit"} {
		s.rated(name)
	}
	return maps.Clone(s.text)
}

// Rewrite changes the text of statements.
func (s *Store) Rewrite(change func(name, text string) string) {
	for name, text := range s.sql.all() {
		s.sql.text[name] = qualify.Text(change(fileOf(name), Plain(text)))
	}
}

type retryingApart struct {
	pool  *pgxpool.Pool
	clock step
	turn  func(got bool)
}

func (c retryingApart) run(ctx context.Context, steps ...step) error {
	return repeatTransaction(func() error { return c.once(ctx, steps) })
}

func (c retryingApart) once(ctx context.Context, steps []step) error {
	t, err := c.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer t.Rollback(context.WithoutCancel(ctx)) // does nothing after the commit
	conn := onPgx(t, t.Conn().Config())
	for _, st := range steps {
		if strings.HasPrefix(Plain(st.sql), "select set_config('lock_timeout'") {
			continue
		}
		if err := conn.run(ctx, c.clock, c.watched(st)); err != nil {
			return err
		}
	}
	return t.Commit(ctx)
}

// watched calls turn with the result of a statement that takes a turn.
func (c retryingApart) watched(st step) step {
	takesTurn := slices.ContainsFunc([]string{"admit", "expire", "sweep"}, func(turn string) bool { return strings.Contains(st.sql, "set_config('dibs_turn."+turn+"'") })
	if !takesTurn {
		return st
	}
	row := st.row
	st.row = func(scan func(...any) error) error {
		return row(func(to ...any) error {
			err := scan(to...)
			switch said := to[0].(type) {
			case *string:
				c.turn(*said == "true")
			case *int:
				c.turn(*said > 0)
			}
			return err
		})
	}
	return st
}

var _ conn = retryingApart{}

// AdmitKey is the key of the lock that a claim takes to admit jobs of groups.
func (s *Store) AdmitKey(queue string) int64 { return s.admitKey(queue) }

// ProbeMarks makes the next claim go without marks.
func (s *Store) ProbeMarks(queue string) {
	m := s.queues.lanesOf(queue).marks(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.probeAt = time.Time{}
}

// AddNewQueues does what a store does when it is notified of a new queue.
func (s *Store) AddNewQueues(ctx context.Context) error { return s.addNewQueues(ctx, wakeups.All) }

// Settle does all that is left to do for jobs that come after others that have ended.
func (s *Store) Settle(ctx context.Context) error {
	s.sweeper.settler.wait(time.Minute)
	return s.settle(ctx, settleFor)
}

// ForgetQueues makes the store read the settings of queues anew.
func (s *Store) ForgetQueues() { s.queues.init() }

// passTime is a block that moves the times of a schema, but those of whole minutes.
const passTime = `
do $$
declare
    change text;
begin
    for change in
        select format('update %s set %s', c.oid::regclass, string_agg(format(
            case when a.attname ~ '_ns$' then '%1$I = greatest(%1$I - MICROS::bigint * 1000, 0)' else '%1$I = %1$I - interval ''MICROS microseconds''' end, a.attname), ', '))
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = 'SCHEMA'::regnamespace and c.relkind = 'r' and c.relname <> 'history' and c.relname <> 'migration'
            and (a.atttypid = 'timestamptz'::regtype or a.attname in ('at_ns', 'full_ns')) and not a.attisdropped
        group by c.oid
        order by c.relname
    loop
        execute change;
    end loop;
end
$$`

// Pass lets time pass for the stores of a schema: it subtracts d from every time in it, and they
// forget their marks.
func Pass(ctx context.Context, d time.Duration, stores ...*Store) error {
	s := stores[0]
	_, err := s.pool.Exec(ctx, strings.NewReplacer("MICROS", strconv.FormatInt(d.Microseconds(), 10), "SCHEMA", cmp.Or(s.o.Schema, "dibs")).Replace(passTime))
	for _, s := range stores {
		s.queues.forgetMarks()
	}
	return err
}
