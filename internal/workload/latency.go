package workload

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
)

// Latency is W4: the time from the call that enqueues a job to the start of its handler in
// another process. With noListen the worker does not use LISTEN, which only PostgreSQL has.
func (b *Bench) Latency(noListen bool) Workload {
	w := Workload{
		ID: "W4", Name: "enqueue to start in another process, 500 jobs/s",
		Rows:     []Row{{Key: "p50", Name: "p50", Unit: "ms"}, {Key: "p99", Name: "p99", Unit: "ms"}},
		Postgres: noListen, Conns: conns(2, b.Pool), Takes: b.duration(latencyTime) + b.duration(latencyWarm) + 300*time.Millisecond,
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, noListen, func(o *opened) (Measured, error) {
				return b.latency(ctx, o, order{System: p.Name, Place: o.place, Pool: b.Pool, NoListen: noListen, Handlers: b.Handlers})
			})
		},
	}
	if noListen {
		w.Name += ", without LISTEN"
	}
	return w
}

const (
	latencyInterval = 2 * time.Millisecond // 500 jobs/s
	latencyTime     = 20 * time.Second
	latencyWarm     = time.Second // warm-up: its jobs do not count
)

func (b *Bench) latency(ctx context.Context, s System, o order) (Measured, error) {
	c, err := b.spawn(ctx, "worker", o)
	if err != nil {
		return Measured{}, err
	}
	warm, n := int(b.duration(latencyWarm)/latencyInterval), int(b.duration(latencyTime)/latencyInterval)
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

// stream enqueues jobs at a steady rate, without waiting for earlier calls.
func stream(ctx context.Context, s System, warm, n int) error {
	group, groupCtx := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range warm + n {
		if sleep(groupCtx, time.Until(start.Add(time.Duration(i)*latencyInterval))) != nil {
			break // one of the calls failed, or ctx has ended
		}
		group.Go(func() error {
			j := letters(1)
			if i >= warm {
				j[0].Mail.Sent = time.Now().UnixNano()
			}
			return s.Enqueue(groupCtx, j)
		})
	}
	return errors.Join(group.Wait(), ctx.Err())
}
