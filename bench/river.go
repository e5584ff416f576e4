package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
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

func attachRiver(ctx context.Context, url string, pool int, poll bool) (system, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(pool + besides)
	s := &riverSystem{poll: poll}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	driver := riverpgxv5.New(s.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: warnings})
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
		Logger:            warnings,
		PollOnly:          s.poll,
	}
}

func (s *riverSystem) close() { s.pool.Close() }

func (s *riverSystem) enqueue(ctx context.Context, jobs []job) error {
	if len(jobs) == 1 {
		_, err := s.in.Insert(ctx, jobs[0].mail, &river.InsertOpts{Priority: jobs[0].priority + 1})
		return err
	}
	batch := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		batch[i] = river.InsertManyParams{Args: j.mail, InsertOpts: &river.InsertOpts{Priority: j.priority + 1}}
	}
	_, err := s.in.InsertManyFast(ctx, batch)
	return err
}

func (s *riverSystem) work(ctx context.Context, w work) (func() error, error) {
	config := s.config()
	config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: w.handlers}}
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, &riverHandler{started: w.started})
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
			w.finished("")
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

type riverHandler struct {
	river.WorkerDefaults[mail]
	started func(mail)
}

func (h *riverHandler) Work(_ context.Context, j *river.Job[mail]) error {
	if h.started != nil {
		h.started(j.Args)
	}
	return nil
}
