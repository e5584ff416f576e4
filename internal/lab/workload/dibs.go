package workload

import (
	"context"
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/mysql"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/dibs-queue/dibs/sqlite"
)

type dibsSystem struct{ db admin.Database }

// createDibs does nothing on SQLite, where opening a file creates the tables.
func createDibs(ctx context.Context, place Place) error {
	switch {
	case place.SQLite:
		return nil
	case place.Prefix != "":
		return mysql.Migrate(ctx, place.URL, mysql.Options{Prefix: place.Prefix})
	}
	return postgres.Migrate(ctx, place.URL, postgres.Options{Schema: place.Schema})
}

func attachDibs(ctx context.Context, place Place, pool int, noListen bool) (System, error) {
	if place.SQLite {
		db, err := sqlite.Open(ctx, place.URL, sqlite.Options{})
		if err != nil {
			return nil, err
		}
		return dibsSystem{db}, nil
	}
	if place.Prefix != "" {
		db, err := mysql.Open(ctx, place.URL, mysql.Options{Prefix: place.Prefix, MaxConns: pool})
		if err != nil {
			return nil, err
		}
		return dibsSystem{db}, nil
	}
	db, err := postgres.Open(ctx, place.URL, postgres.Options{Schema: place.Schema, MaxConns: pool, Pooler: noListen})
	if err != nil {
		return nil, err
	}
	return dibsSystem{db}, nil
}

func (s dibsSystem) Close() { _ = s.db.Close() /* the place is dropped next */ }

func (s dibsSystem) Enqueue(ctx context.Context, jobs []Job) error {
	batch := make([]dibs.NewJob, len(jobs))
	for i, j := range jobs {
		batch[i] = dibs.NewJob{Kind: MailKind, Payload: j.Mail, Priority: &j.Priority, Group: j.Group, Ref: j.Ref}
		if j.After != "" {
			batch[i].After = []dibs.Dep{{Ref: j.After}}
		}
	}
	_, err := s.db.Enqueue(ctx, batch)
	return err
}

func (s dibsSystem) Work(ctx context.Context, w Work) (func() error, error) {
	return RunWorker(ctx, s.db, dibs.DefaultQueue, w)
}

// RunWorker is System.Work for a store of dibs.
func RunWorker(ctx context.Context, s dibs.Store, queue string, w Work) (func() error, error) {
	worker := &dibs.Worker{Store: s, Queue: queue, Concurrency: w.Handlers, Hooks: dibs.Hooks{
		Log: Warnings,
		Finished: func(a dibs.Attempt) {
			if a.NotWritten == nil && a.Outcome.Ending == dibs.EndCompleted {
				w.Finished(a.Job.Group)
			}
		},
	}}
	dibs.Handle(worker, MailKind, func(_ context.Context, j *dibs.Job[Mail]) error {
		if w.Started != nil {
			w.Started(j.Payload.Start())
		}
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

// withDibs is withSystem for workloads that only dibs can run.
func (b *Bench) withDibs(ctx context.Context, p Product, f func(*opened, admin.Database) (Measured, error)) (Measured, error) {
	return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) { return f(o, o.System.(dibsSystem).db) })
}

// lifecycle claims up to n jobs, completes them, and returns their number.
func lifecycle(ctx context.Context, db dibs.Store, n int) (int, error) {
	jobs, err := db.Claim(ctx, dibs.ClaimRequest{Worker: "bench", N: n})
	if err != nil || len(jobs) == 0 {
		return 0, err
	}
	return len(jobs), complete(ctx, db, jobs)
}

func complete(ctx context.Context, db dibs.Store, jobs []*dibs.RawJob) error {
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Complete(nil)
	}
	return db.Finish(ctx, outcomes)
}

// sound fails if the database is inconsistent, since the speed of wrong results means nothing.
func sound(ctx context.Context, db admin.Database) error {
	found, err := db.Check(ctx)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("the database is damaged: %s", strings.Join(found, "; "))
	}
	return err
}
