package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// latencyWorkloads are W4: how long after the call that enqueues it a job's handler
// starts in another process, with and without LISTEN.
func latencyWorkloads() []workload {
	list := []workload{
		{name: "enqueue to start, 500 jobs/s", contenders: []contender{{"dibs", latency(onPostgres)}, {"River", latency(asRiver)}}},
		{name: "the same without LISTEN", contenders: []contender{{"dibs", latency(polling(onPostgres))}, {"River", latency(polling(asRiver))}}},
	}
	for i := range list {
		list[i].id = "W4"
		list[i].rows = []row{{key: "p50", name: "p50", unit: "ms"}, {key: "p99", name: "p99", unit: "ms"}}
	}
	list[0].rows[0].target, list[0].rows[1].target = "1.2", "5"
	return list
}

const (
	latencyEvery = 2 * time.Millisecond // 500 jobs/s
	latencyTime  = 20 * time.Second
	latencyWarm  = time.Second // whose jobs do not count
)

func latency(p product) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (measured, error) {
		s, err := b.open(ctx, p)
		if err != nil {
			return measured{}, err
		}
		defer s.close()
		c, err := b.spawn(ctx, order{System: p.name, URL: s.url, Pool: b.pool, Poll: p.poll, Handlers: b.handlers})
		if err != nil {
			return measured{}, err
		}
		warm, n := int(b.duration(latencyWarm)/latencyEvery), int(b.duration(latencyTime)/latencyEvery)
		err = c.begin()
		if err == nil {
			err = stream(ctx, s, warm, n)
		}
		if err == nil {
			err = await(ctx, warm+n, c)
		}
		r, ended := c.end()
		if err := errors.Join(err, ended); err != nil {
			return measured{}, err
		}
		return measured{figures: map[string]float64{"p50": ms(r.P50), "p99": ms(r.P99)}}, nil
	}
}

// stream enqueues jobs at a steady rate, whatever the calls before them do.
func stream(ctx context.Context, s system, warm, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range warm + n {
		time.Sleep(time.Until(start.Add(time.Duration(i) * latencyEvery)))
		group.Go(func() error {
			j := letters(1)
			if i >= warm {
				j[0].mail.Sent = time.Now().UnixNano()
			}
			return s.enqueue(ctx, j)
		})
	}
	return group.Wait()
}
