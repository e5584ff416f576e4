package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
	"github.com/dibs-queue/dibs/sqlite"
)

type dibsSystem struct{ db dibs.Database }

func attachDibs(ctx context.Context, url string, pool int, poll bool) (system, error) {
	if err := postgres.Migrate(ctx, url, postgres.Options{}); err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, url, postgres.Options{MaxConns: pool, Pooler: poll})
	if err != nil {
		return nil, err
	}
	return dibsSystem{db}, nil
}

func attachSQLite(ctx context.Context, path string, _ int, _ bool) (system, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return dibsSystem{db}, nil
}

func (s dibsSystem) close() { _ = s.db.Close() /* the database is dropped next */ }

func (s dibsSystem) enqueue(ctx context.Context, jobs []job) error {
	batch := make([]dibs.NewJob, len(jobs))
	for i, j := range jobs {
		batch[i] = dibs.NewJob{Kind: mailKind, Payload: j.mail, Priority: &j.priority, Group: j.group}
	}
	_, err := s.db.Enqueue(ctx, batch)
	return err
}

func (s dibsSystem) work(ctx context.Context, w work) (func() error, error) {
	worker := &dibs.Worker{Store: s.db, Concurrency: w.handlers, Hooks: dibs.Hooks{
		Log: warnings,
		Finished: func(a dibs.Attempt) {
			if a.NotWritten == nil && a.Outcome.Ending == dibs.EndCompleted {
				w.finished(a.Job.Group)
			}
		},
	}}
	dibs.Handle(worker, mailKind, func(_ context.Context, j *dibs.Job[mail]) error {
		if w.started != nil {
			w.started(j.Payload)
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

// openDibs opens dibs on PostgreSQL for what only dibs is measured at.
func (b *bench) openDibs(ctx context.Context) (*opened, dibs.Database, error) {
	o, err := b.open(ctx, onPostgres)
	if err != nil {
		return nil, nil, err
	}
	return o, o.system.(dibsSystem).db, nil
}

// lifecycle claims up to n jobs and completes them. It returns how many.
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

// sound fails if the database holds anything that it must not: fast and wrong is no figure.
func sound(ctx context.Context, db dibs.Database) error {
	found, err := db.Check(ctx)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("the database is damaged: %s", strings.Join(found, "; "))
	}
	return err
}
