package workload

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// Latency is W4: how long after the call that enqueues it a job's handler starts in
// another process. With poll it does without LISTEN, which is PostgreSQL's.
func (b *Bench) Latency(poll bool) Workload {
	w := Workload{
		ID: "W4", Name: "enqueue to start in another process, 500 jobs/s",
		Rows:     []Row{{Key: "p50", Name: "p50", Unit: "ms"}, {Key: "p99", Name: "p99", Unit: "ms"}},
		Postgres: poll, Conns: conns(2, b.Pool), Takes: b.duration(latencyTime) + b.duration(latencyWarm) + 300*time.Millisecond,
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.with(ctx, p, poll, func(o *opened) (Measured, error) {
				return b.latency(ctx, o, order{System: p.Name, Place: o.place, Pool: b.Pool, Poll: poll, Handlers: b.Handlers})
			})
		},
	}
	if poll {
		w.Name += ", without LISTEN"
	}
	return w
}

const (
	latencyEvery = 2 * time.Millisecond // 500 jobs/s
	latencyTime  = 20 * time.Second
	latencyWarm  = time.Second // whose jobs do not count
)

func (b *Bench) latency(ctx context.Context, s System, o order) (Measured, error) {
	c, err := b.spawn(ctx, "worker", o)
	if err != nil {
		return Measured{}, err
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
		return Measured{}, err
	}
	return Measured{Figures: map[string]float64{"p50": ms(r.P50), "p99": ms(r.P99)}}, nil
}

// stream enqueues jobs at a steady rate, whatever the calls before them do.
func stream(ctx context.Context, s System, warm, n int) error {
	group, inside := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range warm + n {
		if sleep(inside, time.Until(start.Add(time.Duration(i)*latencyEvery))) != nil {
			break // one of the calls failed, or ctx has ended
		}
		group.Go(func() error {
			j := letters(1)
			if i >= warm {
				j[0].Mail.Sent = time.Now().UnixNano()
			}
			return s.Enqueue(inside, j)
		})
	}
	return errors.Join(group.Wait(), ctx.Err())
}
