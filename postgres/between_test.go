package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/postgres"
)

// These tests stop a call between two steps, or a statement between its snapshot and its
// locks, while other sessions work.

// barrier replaces the text at, which occurs once in the statement, by stop. The statement
// then waits there until the returned transaction ends.
func (b bench) barrier(s *postgres.Store, statement, at, stop string) pgx.Tx {
	b.Helper()
	s.Rewrite(func(name, text string) string {
		if name != statement {
			return text
		}
		if strings.Count(text, at) != 1 {
			b.Fatalf("%s.sql does not have %q once: where does it stop now?", name, at)
		}
		return strings.Replace(text, at, stop, 1)
	})
	tx := b.begin()
	_, err := tx.Exec(b.ctx, "select pg_advisory_xact_lock(1)")
	b.must(err)
	return tx
}

// An extension commits just after the sweep has seen the lease end.
func TestALeaseThatIsJustExtendedIsNotTaken(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	b.add("")
	jobs := b.take(1, 2*time.Second)
	extension := b.begin()
	_, err := extension.Exec(b.ctx, "update dibs.job set lease_until = lease_until + interval '1 hour' where id = $1", jobs[0].ID)
	b.must(err)
	b.awaitLeaseEnd(jobs)
	barrier := b.barrier(b.Store, "expire", "from held h\n", "from (select held.*, pg_advisory_xact_lock(1) from held) h\n")
	end := b.beside(1, func() error {
		_, err := b.Sweep(b.ctx)
		return err
	})
	b.must(extension.Commit(b.ctx))
	b.must(barrier.Rollback(b.ctx))
	b.must(end())
	if err := b.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
		t.Errorf("its holder finishes the job, with an hour left: %v", err)
	}
	b.consistent()
}

// An extension begins in time but commits after the lease's old end. A finish in between
// waits for it.
func TestAFinishBesideAnExtensionIsNotRefused(t *testing.T) {
	needs.Race(t)
	for name, outcome := range map[string]func(dibs.Lease) dibs.Outcome{
		"completed": func(l dibs.Lease) dibs.Outcome { return l.Complete(nil) },
		"retried":   func(l dibs.Lease) dibs.Outcome { return l.Retry("e") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Options{})
			b.add("")
			jobs := b.take(1, time.Second)
			extension, tx := b.begin(), b.begin()
			_, err := extension.Exec(b.ctx, "update dibs.job set lease_until = lease_until + interval '1 hour' where id = $1", jobs[0].ID)
			b.must(err)
			b.awaitLeaseEnd(jobs)
			end := b.beside(1, func() error {
				return b.Tx(tx).Finish(b.ctx, []dibs.Outcome{outcome(jobs[0].Lease())})
			})
			b.must(extension.Commit(b.ctx))
			b.must(end())
			b.must(tx.Commit(b.ctx))
			b.consistent()
		})
	}
}

// A limit is lowered while an admission, which has read the old one, is under way: the jobs
// that it will admit cannot be seen yet.
func TestALimitLoweredDuringAnAdmissionHolds(t *testing.T) {
	needs.Race(t)
	for name, lower := range map[string]func(bench) error{
		"of a group": func(b bench) error { return b.ChangeGroup(b.ctx, "q", "g", dibs.GroupChange{Limit: new(1)}.Apply) },
		"of all groups": func(b bench) error {
			_, err := b.ChangeQueue(b.ctx, "q", dibs.QueueChange{GroupLimit: new(1)}.Apply)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, postgres.Options{})
			b.change(dibs.QueueChange{GroupLimit: new(3)})
			later := dibs.NewJob{Queue: "q", Kind: "k", Group: "g", Delay: 100 * time.Millisecond}
			_, err := b.Enqueue(b.ctx, []dibs.NewJob{later, later, later, {Queue: "q", Kind: "k", Group: "other"}})
			b.must(err)
			_, err = b.pool.Exec(b.ctx, "select pg_sleep_until((select max(run_at) from dibs.job))")
			b.must(err)
			tx := b.begin()
			_, err = tx.Exec(b.ctx, "select from dibs.wake_list for update")
			b.must(err)
			admitted := b.beside(1, func() error {
				_, err := b.Sweep(b.ctx)
				return err
			})
			lowered := b.beside(2, func() error { return lower(b) })
			b.must(tx.Rollback(b.ctx))
			b.must(admitted())
			b.must(lowered())
			running := 0
			for _, j := range b.take(5, 0) {
				if j.Group == "g" {
					running++
				}
			}
			if running != 1 {
				t.Errorf("%d jobs of the group run, the limit is 1", running)
			}
			b.consistent()
		})
	}
}

// A job holds its group's only place, unclaimed, when a better one comes. Another claim
// looks for jobs before the better one is given the place.
func TestAPlaceIsNotUsedBeforeABetterJob(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	b.add("g")
	_, err := b.Sweep(b.ctx)
	b.must(err)
	better, err := b.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k", Group: "g", Priority: new(0)}})
	b.must(err)
	tx := b.begin()
	_, err = tx.Exec(b.ctx, "select from dibs.wake_list for update")
	b.must(err)
	var running []*dibs.RawJob
	first := b.beside(1, func() (err error) {
		running, err = b.Claim(b.ctx, request(5))
		return err
	})
	if n := len(b.take(5, 0)); n != 0 {
		t.Errorf("%d jobs started in the meantime", n)
	}
	b.must(tx.Rollback(b.ctx))
	b.must(first())
	if len(running) != 1 || running[0].ID != better[0].ID {
		t.Errorf("%d jobs run, want the better one, %d", len(running), better[0].ID)
	}
	b.consistent()
}

// A job is claimed just before an admission would lock it to compare it with others. The
// job's finish does not wait for that admission.
func TestAFinishDoesNotWaitForAnAdmission(t *testing.T) {
	needs.Race(t)
	b := newBench(t, postgres.Options{})
	b.add("g")
	_, err := b.Sweep(b.ctx)
	b.must(err)
	b.add("g")
	lists := b.begin()
	_, err = lists.Exec(b.ctx, "select from dibs.wake_list for update")
	b.must(err)
	barrier := b.barrier(b.Store, "admit", "from decided d\n    where d.busy", "from (select decided.*, pg_advisory_xact_lock(1) from decided) d\n    where d.busy")
	admitted := b.beside(1, func() error {
		_, err := b.Sweep(b.ctx)
		return err
	})
	jobs := b.take(1, 0)
	b.must(lists.Rollback(b.ctx))
	for there := false; !there; {
		b.must(b.pool.QueryRow(b.ctx, "select exists (select from pg_locks where locktype = 'advisory' and not granted)").Scan(&there))
	}
	if err := b.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
		t.Errorf("finish: %v", err)
	}
	b.must(barrier.Rollback(b.ctx))
	b.must(admitted())
	b.consistent()
}

// A transaction has claimed before the limit was set; other claims cannot see how many jobs.
func TestAConcurrencyLimitThatIsSetDuringAClaimHolds(t *testing.T) {
	b := newBench(t, postgres.Options{})
	b.add("", "")
	tx := b.begin()
	inTx := b.Tx(tx)
	jobs, err := inTx.Claim(b.ctx, request(1))
	if err != nil || len(jobs) != 1 {
		t.Fatal(len(jobs), err)
	}
	b.change(dibs.QueueChange{Concurrency: new(1)})
	if n := len(b.take(1, 0)); n != 0 {
		t.Error("another job started beside the transaction's, the limit is 1")
	}
	b.must(inTx.Finish(b.ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil)}))
	b.must(tx.Commit(b.ctx))
	if n := len(b.take(1, 0)); n != 1 {
		t.Error("the place did not become free")
	}
	b.consistent()
}

// A claim that began without a limit has not locked anything yet when the limit is set. A
// lock for key share alone would not show it the queue's new settings.
func TestAClaimThatBeganBeforeTheLimitTakesNothingBesideIt(t *testing.T) {
	needs.Race(t)
	claimThatBeganBefore(t, dibs.QueueChange{Concurrency: new(2)})
}

// A process that still goes by an old, faster rate claims nothing, and drops nothing of what the new one is owed.
func TestAClaimByAnOldRateChangesNothing(t *testing.T) {
	b := newBench(t, postgres.Options{})
	other, err := postgres.New(b.ctx, b.pool, postgres.Options{})
	b.must(err)
	t.Cleanup(func() { _ = other.Close() }) // never fails
	b.change(dibs.QueueChange{Rate: &dibs.Rate{N: 1000, Per: time.Second}})
	b.add(make([]string, 40)...)
	b.take(1, 0) // the store now knows the old rate
	_, err = other.ChangeQueue(b.ctx, "q", dibs.QueueChange{Rate: &dibs.Rate{N: 1, Per: 24 * time.Hour, Burst: 13}}.Apply)
	b.must(err)
	jobs, err := other.Claim(b.ctx, request(40))
	b.must(err)
	if len(jobs) < 13 {
		t.Fatalf("the new rate let %d jobs start", len(jobs))
	}
	if more := b.take(40, 0); len(more) > 0 {
		t.Errorf("%d jobs started beyond the new rate", len(more))
	}
	b.consistent()
}

func TestAClaimThatBeganBeforeTheRateTakesNothingBesideIt(t *testing.T) {
	needs.Race(t)
	claimThatBeganBefore(t, dibs.QueueChange{Rate: &dibs.Rate{N: 1, Per: time.Hour}})
}

// claimThatBeganBefore makes a change that lets one job more start while one runs, and expects
// a claim that began before it to take none beside that one.
func claimThatBeganBefore(t *testing.T, change dibs.QueueChange) {
	b := newBench(t, postgres.Options{})
	b.add("", "", "", "", "", "")
	early, err := postgres.New(b.ctx, b.pool, postgres.Options{})
	b.must(err)
	defer func() { _ = early.Close() }() // never fails
	jobs, err := early.Claim(b.ctx, request(1))
	if err != nil || len(jobs) != 1 {
		t.Fatal(len(jobs), err)
	}
	barrier := b.barrier(early, "claim", "    for key share skip locked", " and pg_advisory_xact_lock(1)::text is not null\n    for key share skip locked")
	got := 0
	end := b.beside(1, func() error {
		jobs, err := early.Claim(b.ctx, request(3))
		got = len(jobs)
		return err
	})
	b.change(change)
	if n := len(b.take(5, 0)); n != 1 {
		t.Errorf("claimed %d, want the one that may start beside the running one", n)
	}
	b.must(barrier.Rollback(b.ctx))
	b.must(end())
	if got != 0 {
		t.Errorf("a claim took %d jobs that may not start", got)
	}
	b.consistent()
}

// beforeStatement calls do before the statement text is sent for the first time.
type beforeStatement struct {
	texts map[string]bool // with and without its marked parts
	do    func()
}

func (h *beforeStatement) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		if do := h.do; h.texts[postgres.Plain(q.SQL)] && do != nil {
			h.do = nil
			do()
		}
	}
	return ctx
}

func (h *beforeStatement) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (h *beforeStatement) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (h *beforeStatement) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (h *beforeStatement) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// watched is another store, which calls hook before it sends a statement.
func (b bench) watched(hook *beforeStatement, statement string) *postgres.Store {
	b.Helper()
	hook.texts = make(map[string]bool)
	config := b.pool.Config().Copy()
	config.ConnConfig.Tracer = hook
	pool, err := pgxpool.NewWithConfig(b.ctx, config)
	b.must(err)
	b.Cleanup(pool.Close)
	other, err := postgres.New(b.ctx, pool, postgres.Options{})
	b.must(err)
	b.Cleanup(func() { _ = other.Close() }) // never fails
	other.Rewrite(func(name, text string) string {
		if name == statement {
			hook.texts[text] = true
		}
		return text
	})
	return other
}

// An enqueue has inserted the jobs with free keys and met a held one. Before it looks up the
// holder, that gives its key up and the settings change.
func TestABatchThatBeginsAgainInsertsNothingTwice(t *testing.T) {
	b := newBench(t, postgres.Options{})
	job := dibs.NewJob{Queue: "q", Kind: "k", UniqueKey: "u", IfHeld: dibs.HeldReplace}
	_, err := b.Enqueue(b.ctx, []dibs.NewJob{job})
	b.must(err)
	holder := b.take(1, 0)[0].Lease()

	hook := &beforeStatement{}
	other := b.watched(hook, "holders")
	met := false
	hook.do = func() {
		met = true
		b.must(b.Finish(b.ctx, []dibs.Outcome{holder.Complete(nil)}))
		b.change(dibs.QueueChange{PayloadLimit: new(1000)})
	}
	added, err := other.Enqueue(b.ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}, job})
	b.must(err)
	if !met {
		t.Fatal("it did not look for the holder")
	}
	if jobs := b.take(5, 0); len(jobs) != 2 || len(added) != 2 {
		t.Errorf("told of %d jobs, there are %d", len(added), len(jobs))
	}
	b.consistent()
}
