package dibs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
)

// holding is a worker whose handlers return when the test tells them to.
type holding struct {
	*testing.T
	owner    string // URL of the database for the test itself
	started  chan int64
	let      chan struct{}
	finished chan dibs.Attempt
	failed   chan string // calls to the store that failed
}

const held = 10

func newHolding(t *testing.T, owner, url string) *holding {
	h := &holding{
		T: t, owner: owner, started: make(chan int64, 100), let: make(chan struct{}),
		finished: make(chan dibs.Attempt, 100), failed: make(chan string, 10_000),
	}
	db, err := open.Database(t.Context(), open.URL(url), open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := quiet(db, func(ctx context.Context, job *dibs.RawJob) error {
		h.started <- job.ID
		select {
		case <-h.let:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	w.Concurrency, w.Lease = held, 2*time.Minute // far longer than any of this takes
	w.Hooks.Finished = func(a dibs.Attempt) { h.finished <- a }
	w.Hooks.Error = func(call string, _ error) {
		select {
		case h.failed <- call:
		default: // the test reads at most one
		}
	}
	stop := run(t, w)
	t.Cleanup(func() {
		stopped(t, stop)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// withDB runs f with a store of its own: one that was open before a restart may have
// broken connections.
func (h *holding) withDB(f func(admin.Database)) {
	h.Helper()
	db, err := open.Database(h.Context(), open.URL(h.owner), open.Options{})
	if err != nil {
		h.Fatal(err)
	}
	defer db.Close()
	f(db)
	if found, err := db.Check(h.Context()); err != nil || len(found) > 0 {
		h.Errorf("consistency check: %q, %v", found, err)
	}
}

// hold has the worker run jobs, and returns when all have started.
func (h *holding) hold() (ids []int64) {
	h.Helper()
	h.withDB(func(db admin.Database) { ids = enqueue(h, db, plain(held)...) })
	for range ids {
		await(h, h.started, "a handler")
	}
	return ids
}

// awaitFailure waits until a call has failed.
func (h *holding) awaitFailure(call string) {
	h.Helper()
	for await(h, h.failed, "a failed "+call) != call {
	}
}

// end has the handlers return while the database does not answer, lets it answer again
// when the worker has noticed, and expects that no attempt was lost.
func (h *holding) end(ids []int64, answerAgain func()) {
	h.Helper()
	for len(h.failed) > 0 {
		<-h.failed // drop older failures
	}
	for range ids {
		h.let <- struct{}{}
	}
	h.awaitFailure("finish")
	answerAgain()
	for range ids {
		if a := await(h, h.finished, "an outcome"); a.NotWritten != nil || a.Job.Attempt != 1 {
			h.Errorf("attempt %d of job %d: %v", a.Job.Attempt, a.Job.ID, a.NotWritten)
		}
	}
	h.withDB(func(db admin.Database) {
		for _, id := range ids {
			if job := get(h, db, id); job.State != dibs.Completed || job.Attempt != 1 {
				h.Errorf("job %d is %s after %d attempts", id, job.State, job.Attempt)
			}
		}
	})
}

// One worker survives every kind of server end: it writes the outcomes of that time when
// the server is back, and goes on.
func TestAWorkerOutlivesEveryEndOfItsServer(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	url := migrated(t, server.URL())
	h := newHolding(t, url, url)
	for _, end := range []func(){
		func() { server.Stop(pgtest.Fast) },
		func() { server.Stop(pgtest.Immediate) },
		server.Kill,
	} {
		ids := h.hold()
		end()
		h.end(ids, server.Start)
	}
}

// A role may have timeouts that end statements, waits for locks and idle sessions,
// the listening one too, and no rights but the documented ones.
func TestAWorkerGoesOnUnderTheTimeoutsOfItsRole(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	owner := migrated(t, pgtest.URL(t))
	const idle = 200 * time.Millisecond
	h := newHolding(t, owner, pgtest.Role(t, owner, append(slices.Clone(pgtest.Grants),
		"alter role ROLE set statement_timeout = '1s'",
		"alter role ROLE set lock_timeout = '100ms'",
		"alter role ROLE set idle_in_transaction_session_timeout = '100ms'",
		"alter role ROLE set idle_session_timeout = '200ms'")...))
	ids := h.hold()
	lock, err := pgx.Connect(t.Context(), owner)
	if err == nil {
		_, err = lock.Exec(t.Context(), "begin; select from dibs.job for update")
	}
	if err != nil {
		t.Fatal(err)
	}
	h.end(ids, func() {
		if err := lock.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		time.Sleep(2 * idle) // the server ends the idle sessions
		ids := h.hold()
		for range ids {
			h.let <- struct{}{}
		}
		for range ids {
			if a := await(t, h.finished, "an outcome"); a.NotWritten != nil || a.Job.Attempt != 1 {
				t.Errorf("attempt %d of job %d: %v", a.Job.Attempt, a.Job.ID, a.NotWritten)
			}
		}
	}
}

// If another transaction has locked a job's row, its outcome is written later; the others
// of its batch are written at once.
func TestALockedJobIsWrittenLater(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	url := migrated(t, pgtest.URL(t))
	h := newHolding(t, url, url)
	ids := h.hold()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from dibs.job where id = any ($1) for no key update", ids[3:5]); err != nil {
		t.Fatal(err)
	}
	h.end(ids, func() {
		h.awaitFailure("finish") // the second one fails too
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Waiting goes on while the server is away, in whatever way it went.
func TestWaitingOutlivesEveryEndOfItsServer(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	server := pgtest.NewServer(t)
	db := database(t, migrated(t, server.URL()))
	for _, end := range []func(){
		func() { server.Stop(pgtest.Fast) },
		func() { server.Stop(pgtest.Immediate) },
		server.Kill,
	} {
		id := enqueue(t, db, plain(1)...)[0]
		done := make(chan error, 1)
		go func() {
			job, err := db.Wait(t.Context(), id)
			if err == nil && job.State != dibs.Completed {
				err = fmt.Errorf("the job is %s", job.State)
			}
			done <- err
		}()
		end()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := db.Wait(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting without a server gave %v", err)
		}
		cancel()
		select {
		case err := <-done:
			t.Fatalf("waiting ended with the server: %v", err)
		default:
		}
		server.Start()
		worker := run(t, quiet(db, func(context.Context, *dibs.RawJob) error { return nil }))
		if err := await(t, done, "the job's end"); err != nil {
			t.Error(err)
		}
		stopped(t, worker)
	}
}
