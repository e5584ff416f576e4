package postgres_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// markIfAsked makes claims use marks wherever they can, although they are fast, and takes all
// payloads for wide ones, if DIBS_TEST_MARKS is set.
func markIfAsked(s *postgres.Store) {
	if os.Getenv("DIBS_TEST_MARKS") != "" {
		s.MarkAlways()
		s.WideAlways()
	}
}

// newMarking opens a store that claims from marks, and another one, whose marks are those of
// another process.
func newMarking(t *testing.T) (b bench, other *postgres.Store) {
	b = newBench(t, postgres.Options{})
	b.MarkAlways()
	other, err := postgres.New(b.ctx, b.pool, postgres.Options{})
	b.must(err)
	t.Cleanup(func() { _ = other.Close() }) // never fails
	return b, other
}

// passTransaction runs jobs through the queue until there are marks and they have passed over
// the transaction x, if x is not 0.
func (b bench) passTransaction(x uint64) {
	b.Helper()
	for {
		b.add("")
		b.claimsFirst(0)
		if marked, late := b.Marked("q"); marked && (x == 0 || slices.Contains(late, x)) {
			return
		}
		b.must(b.ctx.Err())
		time.Sleep(10 * time.Millisecond)
	}
}

// claimsFirst expects a claim of one job to get the job id, or any if id is 0, and completes it.
func (b bench) claimsFirst(id int64) {
	b.Helper()
	jobs := b.take(1, 0)
	if len(jobs) != 1 || id != 0 && jobs[0].ID != id {
		b.Fatalf("claimed %v, want job %d", ids(jobs), id)
	}
	b.must(b.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
}

func ids(jobs []*dibs.RawJob) (list []int64) {
	for _, j := range jobs {
		list = append(list, j.ID)
	}
	return list
}

// Marks have passed the place where a long transaction wrote. The first claim after its end
// finds the jobs that it left, before all younger ones.
func TestMarksMissNothingOfALongTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(b bench, tx pgx.Tx) int64
		commit bool
	}{
		"that enqueued": {func(b bench, tx pgx.Tx) int64 {
			added, err := b.Tx(tx).Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
			b.must(err)
			return added[0].ID
		}, true},
		"that claimed, and gave up": {func(b bench, tx pgx.Tx) int64 {
			b.add("")
			return b.takeIn(tx, 1)[0].ID
		}, false},
		"that claimed, and put back": {func(b bench, tx pgx.Tx) int64 {
			b.add("")
			j := b.takeIn(tx, 1)[0]
			b.must(b.Tx(tx).Finish(b.ctx, []dibs.Outcome{j.Lease().Release()}))
			return j.ID
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := newMarking(t)
			b.passTransaction(0)
			tx := b.begin()
			id := c.do(b, tx)
			var x uint64
			b.must(tx.QueryRow(b.ctx, "select pg_current_xact_id()::text::bigint").Scan(&x))
			b.passTransaction(x)
			b.StopMarks("q")
			b.add("")
			if c.commit {
				b.must(tx.Commit(b.ctx))
			} else {
				b.must(tx.Rollback(b.ctx))
			}
			b.claimsFirst(id)
			b.claimsFirst(0)
			b.consistent()
		})
	}
}

// The server's list of open transactions ends at the newest one that has ended. So it does not name a newer one, whose
// jobs have older times than the list.
func TestMarksMissNothingOfTheNewestTransaction(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t) // in the shared one, transactions of other databases end, so that the list goes further
	if err := postgres.Migrate(t.Context(), server.URL(), postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	b := newBenchOn(t, opened(t, server.URL(), postgres.Options{}), server.URL())
	b.MarkAlways()
	b.passTransaction(0)
	tx := b.begin()
	added, err := b.Tx(tx).Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
	b.must(err)
	for range 3 { // claims that find nothing, and end no transaction with a number
		if got := b.take(1, 0); len(got) > 0 {
			b.Fatalf("claimed %v", ids(got))
		}
	}
	b.StopMarks("q")
	b.must(tx.Commit(b.ctx))
	b.claimsFirst(added[0].ID)
	b.consistent()
}

// Marks have passed over a transaction that then claims itself: it finds the jobs that it
// has enqueued, and those that it has locked.
func TestALongTransactionFindsItsOwnJobs(t *testing.T) {
	b, _ := newMarking(t)
	b.passTransaction(0)
	locked := b.add("")[0]
	tx := b.begin()
	added, err := b.Tx(tx).Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
	b.must(err)
	_, err = tx.Exec(b.ctx, "select from dibs.job where id = $1 for no key update", locked)
	b.must(err)
	var x uint64
	b.must(tx.QueryRow(b.ctx, "select pg_current_xact_id()::text::bigint").Scan(&x))
	b.passTransaction(x)
	var stop context.CancelFunc
	b.ctx, stop = context.WithTimeout(b.ctx, 3*time.Second) // a claim that waits for its own transaction takes longer
	defer stop()
	if got, want := ids(b.takeIn(tx, 2)), []int64{locked, added[0].ID}; !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
	b.must(tx.Commit(b.ctx))
	b.consistent()
}

// A foreign key to a job takes a key share lock, beside which claims can go on.
func TestMarksDoNotPassWhatIsOnlyReferredTo(t *testing.T) {
	b, _ := newMarking(t)
	b.passTransaction(0)
	tx := b.begin()
	var x uint64
	b.must(tx.QueryRow(b.ctx, "select pg_current_xact_id()::text::bigint").Scan(&x))
	b.passTransaction(x)
	added, err := b.Enqueue(b.ctx, slices.Repeat([]dibs.NewJob{{Queue: "q", Kind: "k"}}, 3))
	b.must(err)
	_, err = tx.Exec(b.ctx, "select from dibs.job where id = $1 for key share", added[0].ID)
	b.must(err)
	for range 3 { // the first claim sees that all earlier transactions have ended
		b.must(b.Look(b.ctx, "q"))
	}
	for _, a := range added {
		if got := ids(b.take(1, 0)); !slices.Equal(got, []int64{a.ID}) {
			t.Errorf("claimed %v, want job %d", got, a.ID)
		}
	}
	b.must(tx.Rollback(b.ctx))
	b.consistent()
}

// The next claim also finds jobs that come below the marks without a long transaction.
func TestMarksMissNothingThatIsPutBack(t *testing.T) {
	for name, back := range map[string]func(b bench, other *postgres.Store, j *dibs.RawJob){
		"a job released by another process": func(b bench, other *postgres.Store, j *dibs.RawJob) {
			b.must(other.Finish(b.ctx, []dibs.Outcome{j.Lease().Release()}))
		},
		"a job whose lease ended": func(b bench, other *postgres.Store, j *dibs.RawJob) {
			_, err := other.Extend(b.ctx, []dibs.Lease{j.Lease()}, dibs.MinLease)
			b.must(err)
			_, err = b.pool.Exec(b.ctx, "select pg_sleep_until(lease_until) from dibs.job where id = $1", j.ID)
			b.must(err)
			_, err = other.Sweep(b.ctx)
			b.must(err)
		},
		"a job in another lane": func(b bench, other *postgres.Store, j *dibs.RawJob) {
			b.must(b.Finish(b.ctx, []dibs.Outcome{j.Lease().Complete(nil)}))
			added, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k", Priority: new(dibs.DefaultPriority + 1)}})
			b.must(err)
			b.passTransaction(0)
			b.passTransaction(0)
			_, err = other.Edit(b.ctx, []int64{added[0].ID}, admin.Edit{Priority: new(dibs.DefaultPriority)})
			b.must(err)
			j.ID = added[0].ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, other := newMarking(t)
			b.add("")
			j := b.take(1, time.Hour)[0]
			for { // transactions of other tests hold the marks up, and claims give marks up when one that they passed over ends
				b.passTransaction(0)
				if _, late := b.Marked("q"); len(late) == 0 && b.MarkedPast("q", j.RunAt, j.ID) {
					break
				}
			}
			b.StopMarks("q")
			back(b, other, j)
			b.add("")
			b.claimsFirst(j.ID)
			b.claimsFirst(0)
			b.consistent()
		})
	}
}

// Claims from marks read waiting jobs, but none that was finished under a long snapshot.
func TestClaimsFromMarksPassWhatIsFinished(t *testing.T) {
	b, _ := newMarking(t)
	holder := b.beginAs(pgx.RepeatableRead)
	_, err := holder.Exec(b.ctx, "select from dibs.job")
	b.must(err)
	defer holder.Rollback(context.Background())
	work := func(n int) {
		b.add(slices.Repeat([]string{""}, n)...)
		for range n / 100 {
			b.complete(b.take(100, 0))
		}
	}
	read := func() int {
		b.passTransaction(0)
		tx := b.begin()
		defer tx.Rollback(context.Background())
		b.takeIn(tx, 1)
		var rows int
		b.must(tx.QueryRow(b.ctx, "select pg_stat_get_xact_tuples_returned('dibs.job_ready'::regclass)").Scan(&rows))
		return rows
	}
	work(100)
	few := read()
	work(3000)
	many := read()
	for until := time.Now().Add(5 * time.Minute); many > few+500 && time.Now().Before(until); many = read() {
		time.Sleep(10 * time.Millisecond) // transactions of other tests may still be open
	}
	if many > few+500 {
		t.Errorf("a claim reads %d entries of the index after 100 jobs, and %d after 3,000 more", few, many)
	}
}

// Marks are kept as long as claims without them read much, however slow the machine is and
// however many writing transactions stay open. Every claim here takes long, with and without
// marks, as on a busy machine.
func TestMarksStayBesideIdleWritersOnASlowMachine(t *testing.T) {
	for _, writers := range []int{10, 120} {
		t.Run(fmt.Sprint(writers, " writers"), func(t *testing.T) {
			b := newBench(t, postgres.Options{})
			pgtest.Flushes(t, b.pool)
			b.idleWriters(writers)
			const finished, claims = 10_000, 30
			for range finished / 1000 {
				b.add(slices.Repeat([]string{""}, 1000)...)
				b.complete(b.take(1000, 0))
			}
			b.Rewrite(func(name, text string) string {
				if name == "claim" { // have the server count at once what the claim has read
					text = strings.Replace(text, "    s.late,\n", "    s.late or pg_sleep(0.02)::text || pg_stat_force_next_flush()::text <> '',\n", 1)
				}
				return text
			})
			work := func() {
				for range claims {
					b.add("")
					b.claimsFirst(0)
				}
			}
			for marked := false; !marked; marked, _ = b.Marked("q") {
				work()
			}
			b.ProbeMarks("q")
			var before, after int
			const read = "select pg_stat_get_tuples_returned('dibs.job_ready'::regclass)"
			b.must(b.pool.QueryRow(b.ctx, read).Scan(&before))
			work()
			b.must(b.pool.QueryRow(b.ctx, read).Scan(&after))
			if entries := after - before; entries > claims*finished/2 {
				t.Errorf("%d claims read %d entries of the index, though one without marks finds %d of finished jobs", claims, entries, finished)
			}
		})
	}
}

// Without any long transaction the server flags the entries of finished jobs, and a claim without
// marks passes over them uncounted, but reads their pages. Marks are kept then, too.
func TestMarksStayWhereFinishedJobsFillPages(t *testing.T) {
	b := newBench(t, postgres.Options{})
	if _, err := b.pool.Exec(b.ctx, "alter table dibs.job set (autovacuum_enabled = off)"); err != nil { // it would empty the pages
		t.Fatal(err)
	}
	const finished = 20_000
	for range finished / 1000 {
		b.add(slices.Repeat([]string{""}, 1000)...)
		b.complete(b.take(1000, 0))
	}
	for i := 0; i < 5; {
		b.add("")
		b.claimsFirst(0)
		switch marked, _ := b.Marked("q"); {
		case marked:
			b.ProbeMarks("q")
			i++
		case i > 0:
			t.Fatalf("the marks were dropped after claim %d without them", i)
		}
		b.must(b.ctx.Err())
	}
}

func (b bench) complete(jobs []*dibs.RawJob) {
	b.Helper()
	done := make([]dibs.Outcome, 0, len(jobs))
	for _, j := range jobs {
		done = append(done, j.Lease().Complete(nil))
	}
	b.must(b.Finish(b.ctx, done))
}

// idleWriters opens transactions that have written, and so have a number, and then do nothing.
func (b bench) idleWriters(n int) {
	b.Helper()
	for range n {
		conn, err := pgx.ConnectConfig(b.ctx, b.pool.Config().ConnConfig.Copy())
		b.must(err)
		b.Cleanup(func() { _ = conn.Close(context.Background()) }) // an error does not matter at the end
		_, err = conn.Exec(b.ctx, "begin; select pg_current_xact_id()")
		b.must(err)
	}
}
