package workload

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Latency is W4: a loop enqueues one job after the other, and the time from each call to the
// start of the job's handler counts. The handlers are in another process, or together with the
// loop in this one. With noListen the worker does not use LISTEN, which only PostgreSQL has.
func (b *Bench) Latency(noListen, together bool) Workload {
	first := b.duration(latencyFirst)
	w := Workload{
		ID: "W4", Name: "enqueue to start, one after the other, 500 jobs/s, in two processes",
		Rows:     []Row{{Key: "p50", Name: "p50", Unit: "ms"}, {Key: "p99", Name: "p99", Unit: "ms"}},
		Postgres: noListen, Conns: conns(2, b.Pool), Takes: first + b.duration(latencyTime) + 300*time.Millisecond,
	}
	switch {
	case together:
		w.Name = "enqueue to start, one after the other, 500 jobs/s, in one process"
	default:
		w.Rows = append(w.Rows,
			Row{Key: "first p50", Name: "p50 of the first " + round(first) + ", which do not count above", Unit: "ms"},
			Row{Key: "first p99", Name: "p99 of the first " + round(first), Unit: "ms"})
	}
	if noListen {
		w.Name += ", without LISTEN"
	}
	w.Rows = append(w.Rows, cost()...)
	w.Run = func(ctx context.Context, b *Bench, p Product) (Measured, error) {
		return b.withSystem(ctx, p, noListen, func(o *opened) (Measured, error) {
			return b.latency(ctx, o, order{System: p.Name, Place: o.place, Pool: b.Pool, NoListen: noListen, Handlers: b.Handlers}, together)
		})
	}
	return w
}

const (
	latencyInterval = 2 * time.Millisecond // 500 jobs/s
	latencyTime     = 20 * time.Second
	latencyFirst    = time.Second // how long the load runs unmeasured first, while connections are opened
)

func (b *Bench) latency(ctx context.Context, s System, o order, together bool) (Measured, error) {
	work, first := b.workElsewhere, b.duration(latencyFirst)
	if together {
		work = func(ctx context.Context, o order) (handlers, error) { return newJournal(ctx, s, o) }
	}
	h, err := work(ctx, o)
	if err != nil {
		return Measured{}, err
	}
	n := int((first + b.duration(latencyTime)) / latencyInterval)
	m, err := b.Timed(ctx, func() (int, error) {
		if err := enqueueSteadily(ctx, s, n); err != nil {
			return 0, err
		}
		return n, await(ctx, n, h)
	})
	r, ended := h.end()
	if err := errors.Join(err, ended); err != nil {
		return Measured{}, err
	}
	if together {
		first = 0
	}
	early, late := waits(r.Starts, first)
	m.Figures["p50"], m.Figures["p99"] = ms(quantile(late, 0.50)), ms(quantile(late, 0.99))
	m.Figures["first p50"], m.Figures["first p99"] = ms(quantile(early, 0.50)), ms(quantile(early, 0.99))
	return m, nil
}

// workElsewhere starts handlers in another process.
func (b *Bench) workElsewhere(ctx context.Context, o order) (handlers, error) {
	c, err := b.spawn(ctx, "worker", o)
	if err != nil {
		return nil, err
	}
	if err := c.begin(ctx); err != nil {
		_, ended := c.end()
		return nil, errors.Join(err, ended)
	}
	return c, nil
}

// enqueueSteadily enqueues n jobs, each after the call for the one before, but none before
// its turn.
func enqueueSteadily(ctx context.Context, s System, n int) error {
	start := time.Now()
	for i := range n {
		if err := sleep(ctx, time.Until(start.Add(time.Duration(i)*latencyInterval))); err != nil {
			return err
		}
		j := letters(1)
		j[0].Mail.Sent = time.Now().UnixNano()
		if err := s.Enqueue(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// waits returns how long the jobs waited that were sent in the first part of the time, and how
// long the others did.
func waits(starts []Start, first time.Duration) (early, late []time.Duration) {
	if len(starts) == 0 {
		return nil, nil
	}
	began := slices.MinFunc(starts, func(a, b Start) int { return int(a.Sent - b.Sent) }).Sent
	for _, s := range starts {
		if wait := time.Duration(s.At - s.Sent); s.Sent-began < int64(first) {
			early = append(early, wait)
		} else {
			late = append(late, wait)
		}
	}
	return early, late
}
