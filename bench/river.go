package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/dibs-queue/dibs/internal/workload"
)

// riverSystem runs River with the settings of its own benchmark, which its
// documentation names as the fastest, and without a timeout for each job, as dibs.
type riverSystem struct {
	pool *pgxpool.Pool
	in   *river.Client[pgx.Tx] // enqueues
	poll bool
}

// Besides its pool dibs uses up to three connections, for wake-ups and upkeep, which
// River takes from the pool.
const besides = 3

// asRiver is River, for workloads.
var asRiver = workload.Product{Name: "River", Attach: attachRiver}

func attachRiver(ctx context.Context, at workload.Place, pool int, poll bool) (workload.System, error) {
	config, err := pgxpool.ParseConfig(at.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(pool + besides)
	s := &riverSystem{poll: poll}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(s.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: workload.Warnings})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		s.in, err = river.NewClient(driver, s.config())
	}
	if err != nil {
		s.pool.Close()
		return nil, err
	}
	return s, nil
}

func (s *riverSystem) config() *river.Config {
	return &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		JobTimeout:        -1,
		Logger:            workload.Warnings,
		PollOnly:          s.poll,
	}
}

func (s *riverSystem) Close() { s.pool.Close() }

func (s *riverSystem) Enqueue(ctx context.Context, jobs []workload.Job) error {
	if len(jobs) == 1 {
		_, err := s.in.Insert(ctx, mail{jobs[0].Mail}, &river.InsertOpts{Priority: jobs[0].Priority + 1})
		return err
	}
	batch := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		batch[i] = river.InsertManyParams{Args: mail{j.Mail}, InsertOpts: &river.InsertOpts{Priority: j.Priority + 1}}
	}
	_, err := s.in.InsertManyFast(ctx, batch)
	return err
}

func (s *riverSystem) Work(ctx context.Context, w workload.Work) (func() error, error) {
	config := s.config()
	config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: w.Handlers}}
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &riverHandler{started: w.Started})
	client, err := river.NewClient(riverpgxv5.New(s.pool), config)
	if err != nil {
		return nil, err
	}
	// Its events, other than its handlers, come after the completion was written. A
	// full channel loses events, so this one takes all of the largest workload.
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: 200_000,
		Kinds:    []river.EventKind{river.EventKindJobCompleted},
	})
	go func() {
		for range events {
			w.Finished("")
		}
	}()
	if err := client.Start(ctx); err != nil {
		unsubscribe()
		return nil, err
	}
	return func() error {
		defer unsubscribe()
		return client.Stop(ctx)
	}, nil
}

// mail is the payload, with what River asks for.
type mail struct{ workload.Mail }

func (mail) Kind() string { return workload.MailKind }

type riverHandler struct {
	river.WorkerDefaults[mail]
	started func(workload.Mail)
}

func (h *riverHandler) Work(_ context.Context, j *river.Job[mail]) error {
	if h.started != nil {
		h.started(j.Args.Mail)
	}
	return nil
}
