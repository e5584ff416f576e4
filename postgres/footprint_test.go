package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/golden"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

func footprintStore(t *testing.T) *Store {
	t.Helper()
	url := pgtest.URL(t)
	if err := Migrate(t.Context(), url, Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // nothing is left to fail
	return s
}

// footprintOf lists what do locks in a transaction.
func footprintOf(t *testing.T, s *Store, do func(*Store) error) []admin.Lock {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if err := do(s.within(tx)); err != nil {
		t.Fatal(err)
	}
	l := lockProbe{s: s, q: queueRow{Queue: dibs.Queue{Name: "g"}}, pid: tx.Conn().PgConn().PID(), queues: []string{"q", "g", "l"}}
	locks, err := l.held(t.Context(), tx)
	if err != nil {
		t.Fatal(err)
	}
	return locks
}

// operation is one call whose locks are pinned.
type operation struct {
	name string
	do   func(*Store) error
}

func claims(queue string, n, want int) operation {
	return operation{fmt.Sprintf("claim %d from %s", n, queue), func(s *Store) error {
		jobs, err := s.claimUnderSettings(context.Background(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: n}, claimer{conn: s.db})
		if err == nil && len(jobs) != want {
			err = fmt.Errorf("claimed %d jobs, want %d", len(jobs), want)
		}
		return err
	}}
}

// prepare fills queue q, queue g with groups, and queue l with a limit; ten jobs of q run,
// and the lease of one more has ended.
func prepare(t *testing.T, s *Store) (running []*dibs.RawJob) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	grouped := jobsOf("g", "", 200)
	for i := range grouped {
		grouped[i].Group = fmt.Sprint("g", i%150)
	}
	for _, jobs := range [][]dibs.NewJob{jobsOf("q", "", 1), jobsOf("q", "", 210), grouped, jobsOf("l", "", 200)} {
		_, err := s.Enqueue(ctx, jobs)
		must(err)
	}
	limit := 150
	_, err := s.ChangeQueue(ctx, "l", dibs.QueueChange{Concurrency: &limit}.Apply)
	must(err)
	must(s.countRunning(ctx, mustQueue(t, s, "l")))
	must(s.admit(ctx, "g"))
	expired, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "crashed", N: 1, Lease: dibs.MinLease})
	must(err)
	running, err = s.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 10, Lease: time.Hour})
	must(err)
	for ended := false; !ended; { // wait by the database's clock
		must(s.pool.QueryRow(ctx, "select now() > $1", expired[0].LeaseUntil).Scan(&ended))
	}
	s.sweeper.sweptAt = time.Now().Add(time.Hour)
	return running
}

func mustQueue(t *testing.T, s *Store, name string) queueRow {
	t.Helper()
	q, ok, err := s.queue(t.Context(), name)
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	return q
}

// The locks of a call grow only with its own jobs. A new lock in the golden file changes
// what other calls wait for.
func TestFootprint(t *testing.T) {
	t.Parallel()
	s := footprintStore(t)
	running := prepare(t, s)
	ctx := t.Context()
	var leases []dibs.Lease
	var done, back []dibs.Outcome
	for _, j := range running {
		leases = append(leases, j.Lease())
		done, back = append(done, j.Lease().Complete(nil)), append(back, j.Lease().Retry("no"))
	}
	finish := func(outcomes []dibs.Outcome) func(*Store) error {
		return func(s *Store) error { return s.finish(ctx, outcomes, finisher{conn: s.db}) }
	}
	enqueue := func(jobs []dibs.NewJob) func(*Store) error {
		return func(s *Store) error {
			_, _, err := s.enqueue(ctx, jobs, s.db)
			return err
		}
	}
	operations := []operation{
		claims("q", 1, 1), claims("q", 10, 10), claims("q", 100, 100),
		claims("g", 1, 1), claims("g", 10, 10), claims("g", 100, 100),
		claims("l", 1, 1), claims("l", 10, 10), claims("l", 100, 100),
		{"enqueue 10", enqueue(jobsOf("q", "", 10))},
		{"enqueue 10 with a group", enqueue(jobsOf("g", "a", 10))},
		{"enqueue one with a group, and admit it", func(s *Store) error {
			if err := enqueue(jobsOf("g", "a", 1))(s); err != nil {
				return err
			}
			return s.admit(ctx, "g")
		}},
		{"extend 10", func(s *Store) error {
			_, err := s.Extend(ctx, leases, time.Hour)
			return err
		}},
		{"complete 10", finish(done)},
		{"retry 10", finish(back)},
		{"sweep 1", func(s *Store) error {
			var swept dibs.Swept
			err := s.expire(ctx, &swept)
			if err == nil && swept.Expired != 1 {
				err = fmt.Errorf("%d leases have ended", swept.Expired)
			}
			return err
		}},
	}
	var b strings.Builder
	for _, op := range operations {
		fmt.Fprintln(&b, op.name)
		for _, lock := range footprintOf(t, s, op.do) {
			rows := ""
			if lock.Rows > 0 {
				rows = fmt.Sprintf(" %d", lock.Rows)
			}
			fmt.Fprintf(&b, "   %s %s: %s\n", rows, lock.On, lock.Mode)
			if strings.HasPrefix(lock.On, "table") && relationMeans[lock.Mode] == "" {
				t.Errorf("%s: %s is locked %s, which stops those who write rows", op.name, lock.On, lock.Mode)
			}
		}
	}
	golden.Match(t, "footprint.txt", b.String())
}

// The test above finds statements that lock more than they should.
func TestFootprintOfDamagedStatements(t *testing.T) {
	t.Parallel()
	s := footprintStore(t)
	running := prepare(t, s)
	damage := func(name string, oldNew ...string) *Store {
		d := &Store{pool: s.pool, db: s.db, upkeep: s.upkeep, sidePool: s.sidePool, txSlots: s.txSlots, sql: &statements{schema: s.sql.schema, text: s.sql.all()}, closed: s.closed}
		d.Rewrite(func(of, text string) string {
			for pair := range slices.Chunk(oldNew, 2) {
				if of == name && !strings.Contains(text, pair[0]) {
					t.Fatalf("%s does not hold %q", name, pair[0])
				}
				if of == name {
					text = strings.Replace(text, pair[0], pair[1], 1)
				}
			}
			return text
		})
		return d
	}
	rows := func(locks []admin.Lock, on string) (mode string, n int) {
		for _, l := range locks {
			if l.On == on {
				return l.Mode, l.Rows
			}
		}
		return "", 0
	}
	claim := claims("q", 10, 10)
	more := damage("claim", "limit $3\n", "limit $3 + 5\n", "limit greatest(", "order by x.ctid limit greatest(") // the claim reads all rows
	if _, n := rows(footprintOf(t, more, claim.do), "rows of job"); n != 15 {
		t.Errorf("a claim of 10 that locks 15 jobs is seen to lock %d", n)
	}
	stronger := damage("claim", "for key share skip locked", "for update skip locked")
	if mode, _ := rows(footprintOf(t, stronger, claim.do), "rows of turn"); mode != "FOR UPDATE" {
		t.Errorf("a claim that locks its queue's turn for update is seen to lock it %q", mode)
	}
	whole := damage(
		"extend",
		"with good", "with whole as materialized (select id from dibs.job where queue = 'q' for update), good",
		"any (array[g.id])", "any (array[g.id]) and (select count(*) from whole) > 0",
	)
	extend := func(s *Store) error {
		_, err := s.Extend(t.Context(), []dibs.Lease{running[0].Lease()}, time.Hour)
		return err
	}
	if _, n := rows(footprintOf(t, whole, extend), "rows of job"); n != 211 {
		t.Errorf("an extension that locks all 211 jobs of the queue is seen to lock %d", n)
	}
}

// A row that several transactions hold is counted for each of them.
func TestFootprintOfARowThatOthersHoldToo(t *testing.T) {
	t.Parallel()
	s := footprintStore(t)
	prepare(t, s)
	other, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(context.Background())
	if err := claims("q", 5, 5).do(s.within(other)); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(footprintOf(t, s, claims("q", 10, 10).do))
	for _, want := range []string{"{rows of job FOR NO KEY UPDATE 10", "{rows of turn FOR KEY SHARE 1"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// dump is the contents of all tables.
func dump(t *testing.T, conn pgx.Tx) string {
	t.Helper()
	var b strings.Builder
	for _, table := range []string{"queue", "turn", "group_limit", "job", "finished", "claim", "wake", "wake_list", "tally", "history"} {
		var text string
		query := fmt.Sprintf("select coalesce(string_agg(r::text, chr(10) order by r::text), '') from dibs.%s r", table)
		if err := conn.QueryRow(t.Context(), query).Scan(&text); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n%s\n", table, text)
	}
	return b.String()
}

func TestLocksChangesNothing(t *testing.T) {
	t.Parallel()
	s := footprintStore(t)
	prepare(t, s)
	look := func() (text string) {
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
			text = dump(t, tx)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := look()
	for _, queue := range []string{"q", "g", "l"} {
		f, err := s.Locks(t.Context(), queue, 10)
		if err != nil || f.Claimed != 10 || len(f.Others) < 7 {
			t.Errorf("queue %s: %+v, %v", queue, f, err)
		}
	}
	if look() != before {
		t.Error("looking at the locks has changed the tables")
	}
}

// In a queue with groups, a change of settings waits for the claim's admission.
func TestLocksSeesWhoWaits(t *testing.T) {
	t.Parallel()
	s := footprintStore(t)
	prepare(t, s)
	for queue, want := range map[string]string{"q": "", "g": "turn to admit groups"} {
		if queue == "g" { // a job that a claim would admit
			if _, err := s.Enqueue(t.Context(), jobsOf("g", "new", 1)); err != nil {
				t.Fatal(err)
			}
		}
		f, err := s.Locks(t.Context(), queue, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range f.Others {
			expected := ""
			if o.What == "a change of settings" {
				expected = want
			}
			if o.WaitsFor != expected {
				t.Errorf("queue %s: %s waits for %q, want %q", queue, o.What, o.WaitsFor, expected)
			}
		}
	}
}

// Locks takes no job whose lease has ended before a sweep to try extend and finish on.
func TestLocksBesideALeaseThatHasEnded(t *testing.T) {
	t.Parallel()
	s := footprintStore(t)
	for _, waiting := range []int{1, 3} {
		queue := fmt.Sprint("ended", waiting)
		if _, err := s.Enqueue(t.Context(), jobsOf(queue, "", waiting+1)); err != nil {
			t.Fatal(err)
		}
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: 1})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		if _, err := s.pool.Exec(t.Context(), "update dibs.job set lease_until = now() - interval '1 second' where id = $1", jobs[0].ID); err != nil {
			t.Fatal(err)
		}
		f, err := s.Locks(t.Context(), queue, 1)
		if err != nil || f.Claimed != 1 {
			t.Fatalf("%+v, %v", f, err)
		}
		for _, o := range f.Others {
			if another := o.What == "extend another job" || o.What == "finish another job"; another && o.Untried != (waiting == 1) {
				t.Errorf("beside %d waiting jobs: %+v", waiting, o)
			}
		}
	}
}
