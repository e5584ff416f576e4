package storetest

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Middleware around the Enqueue of a store.
var middlewareCases = []oneCase{
	{"middleware sees and changes whatever is enqueued, however", middlewareEverywhere},
	{"the first middleware is outermost, and each sees the result", middlewareOrder},
	{"middleware that fails enqueues nothing", middlewareFails},
	{"jobs of schedules pass no middleware", middlewareOfSchedules},
	{"middleware that breaks its rules gives an error, not a panic", middlewareMisuse},
}

type enqueueMiddleware = func(next dibs.EnqueueFunc) dibs.EnqueueFunc

// use calls the store's method Use. Every store on dibs' own tables has one.
func (t *test) use(f enqueueMiddleware) {
	t.Helper()
	s, ok := t.db.(interface{ Use(f enqueueMiddleware) })
	if !ok {
		t.Fatalf("%T has no Use", t.db)
	}
	s.Use(f)
}

// tag is middleware that sets the metadata of all jobs, and counts its calls.
func tag(metadata string, calls *int) enqueueMiddleware {
	return func(next dibs.EnqueueFunc) dibs.EnqueueFunc {
		return func(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
			*calls++
			for i := range jobs {
				jobs[i].Metadata = json.RawMessage(metadata)
			}
			return next(ctx, jobs)
		}
	}
}

func middlewareEverywhere(t *test) {
	var calls int
	t.use(tag(`{"by":"middleware"}`, &calls))
	large := copies(600, dibs.NewJob{Kind: "k"}) // PostgreSQL sends this many by COPY
	all := t.enqueue(large...)
	all = append(all, t.enqueue(dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "k", UniqueKey: "u", Group: "g"})...)
	one, err := dibs.NewKind[int]("typed", dibs.KindOptions{}).Enqueue(t.ctx, t.db, 1)
	t.must(err)
	all = append(all, one.ID)
	tx := t.beginTx()
	all = append(all, t.enqueueOn(tx, dibs.NewJob{Kind: "k"})...)
	all = append(all, t.enqueueOn(tx.Again(), dibs.NewJob{Kind: "k"})...)
	t.must(tx.Commit())
	t.must(t.db.InTx(t.ctx, func(own dibs.Tx) error {
		all = append(all, t.enqueueOn(own, dibs.NewJob{Kind: "k"})...)
		return nil
	}))
	equal(t, "calls of the middleware", calls, 6)
	for _, id := range all {
		if j := t.get(id); !jsonEqual(t, j.Metadata, []byte(`{"by":"middleware"}`)) {
			t.Fatalf("job %d has metadata %s", id, j.Metadata)
		}
	}
	if large[0].Metadata != nil {
		t.Fatal("the middleware has changed the caller's own list")
	}
	if j := t.get(t.enqueueOn(t.Another(t), dibs.NewJob{Kind: "k"})[0]); j.Metadata != nil {
		t.Fatalf("another store has the middleware too: %s", j.Metadata)
	}
}

func middlewareOrder(t *test) {
	var order []string
	around := func(name string) enqueueMiddleware {
		return func(next dibs.EnqueueFunc) dibs.EnqueueFunc {
			return func(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
				order = append(order, name)
				done, err := next(ctx, jobs)
				if err == nil && done[0].ID > 0 {
					name += " saw it"
				}
				order = append(order, name)
				return done, err
			}
		}
	}
	t.use(around("first"))
	t.use(around("second"))
	tx := t.beginTx()
	t.enqueueOn(tx, dibs.NewJob{Kind: "k"})
	t.must(tx.Commit())
	equal(t, "steps", len(order), 4)
	equal(t, "order", order[0]+", "+order[1]+", "+order[2]+", "+order[3], "first, second, second saw it, first saw it")
}

func middlewareFails(t *test) {
	errNo := errors.New("not now")
	t.use(func(next dibs.EnqueueFunc) dibs.EnqueueFunc {
		return func(ctx context.Context, jobs []dibs.NewJob) ([]dibs.Enqueued, error) {
			if jobs[0].Kind == "refused" {
				return nil, errNo
			}
			return next(ctx, jobs)
		}
	})
	tx := t.beginTx()
	_, err := tx.Enqueue(t.ctx, []dibs.NewJob{{Kind: "refused"}})
	if !errors.Is(err, errNo) {
		t.Fatalf("in a transaction: %v", err)
	}
	kept := t.enqueueOn(tx, dibs.NewJob{Kind: "k"})
	t.must(tx.Commit())
	if _, err := t.db.Enqueue(t.ctx, []dibs.NewJob{{Kind: "refused"}}); !errors.Is(err, errNo) {
		t.Fatalf("the error is %v", err)
	}
	sameIDs(t, "jobs", ids(t.list(admin.Filter{})), kept)
}

func middlewareOfSchedules(t *test) {
	var calls int
	t.use(tag(`{"by":"middleware"}`, &calls))
	s := dibs.Schedule{Name: "s", Spec: "every 1s", Kind: "k", Metadata: json.RawMessage(`{"own":1}`)}
	t.must(t.db.SetSchedules(t.ctx, "owner", []dibs.Schedule{s}))
	done, err := t.db.RunSchedule(t.ctx, "s")
	t.must(err)
	if j := t.get(done.ID); !jsonEqual(t, j.Metadata, []byte(`{"dibs.schedule":"s","own":1}`)) {
		t.Fatalf("its job has metadata %s", j.Metadata)
	}
	equal(t, "calls of the middleware", calls, 0)
}

func middlewareMisuse(t *test) {
	if !panics(func() { t.use(nil) }) {
		t.Error("Use of nothing did not panic")
	}
	var breaking enqueueMiddleware
	t.use(func(next dibs.EnqueueFunc) dibs.EnqueueFunc { return breaking(next) })
	breaking = func(dibs.EnqueueFunc) dibs.EnqueueFunc { return nil }
	_, err := t.db.Enqueue(t.ctx, []dibs.NewJob{{Kind: "k"}})
	invalid(t, err, "store.middleware")
	tx := t.beginTx()
	_, err = tx.Enqueue(t.ctx, []dibs.NewJob{{Kind: "k"}})
	invalid(t, err, "store.middleware")
	t.must(tx.Rollback())

	breaking = func(dibs.EnqueueFunc) dibs.EnqueueFunc {
		return func(context.Context, []dibs.NewJob) ([]dibs.Enqueued, error) { return nil, nil }
	}
	_, err = dibs.NewKind[int]("typed", dibs.KindOptions{}).Enqueue(t.ctx, t.db, 1)
	if err == nil {
		t.Error("middleware that returns no results gave no error")
	}
	breaking = func(next dibs.EnqueueFunc) dibs.EnqueueFunc { return next }
	var none context.Context
	_, err = t.db.Enqueue(none, []dibs.NewJob{{Kind: "k"}})
	invalid(t, err, "ctx")
	if len(t.list(admin.Filter{})) != 0 {
		t.Error("a job was enqueued")
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}
