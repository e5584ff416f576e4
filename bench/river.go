package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// riverSystem runs River with the settings of River's own benchmark, which its
// documentation calls the fastest, and like dibs without a timeout for each job.
type riverSystem struct {
	pool     *pgxpool.Pool
	client   *river.Client[pgx.Tx] // only enqueues
	noListen bool
}

// extraConns enlarge River's pool by the connections for wake-ups and upkeep, which dibs
// has besides its pool.
const extraConns = 3

// riverProduct is River as a contender.
var riverProduct = workload.Product{Name: "River", Create: createRiver, Attach: attachRiver}

func createRiver(ctx context.Context, place workload.Place) error {
	pool, err := pgxpool.New(ctx, place.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: workload.Warnings})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return err
}

func attachRiver(ctx context.Context, place workload.Place, pool int, noListen bool) (workload.System, error) {
	config, err := pgxpool.ParseConfig(place.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(pool + extraConns)
	s := &riverSystem{noListen: noListen}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if s.client, err = river.NewClient(riverpgxv5.New(s.pool), s.config()); err != nil {
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
		PollOnly:          s.noListen,
	}
}

func (s *riverSystem) Close() { s.pool.Close() }

func (s *riverSystem) Enqueue(ctx context.Context, jobs []workload.Job) error {
	if len(jobs) == 1 {
		_, err := s.client.Insert(ctx, mail{jobs[0].Mail}, &river.InsertOpts{Priority: jobs[0].Priority + 1})
		return err
	}
	batch := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		batch[i] = river.InsertManyParams{Args: mail{j.Mail}, InsertOpts: &river.InsertOpts{Priority: j.Priority + 1}}
	}
	_, err := s.client.InsertManyFast(ctx, batch)
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
	// River sends events after it has written the completion. A full channel loses
	// events, so this one has room for all of the largest workload.
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

// mail is the payload with the method Kind, which River needs.
type mail struct{ workload.Mail }

func (mail) Kind() string { return workload.MailKind }

type riverHandler struct {
	river.WorkerDefaults[mail]
	started func(workload.Start)
}

func (h *riverHandler) Work(_ context.Context, j *river.Job[mail]) error {
	if h.started != nil {
		h.started(j.Args.Start())
	}
	return nil
}
