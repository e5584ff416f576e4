package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	chainLength = 10
	chainCount  = 10_000
	chainsACall = 100 // how many chains are enqueued with each call

	fanFlows = 10
	fanWidth = 9_998 // one call of dibs takes two jobs more

	hopCount = 1000
)

// Chains is the first W13: a worker drains flows in which each job comes after the one before.
// With held, another session has an open transaction with an older snapshot.
func (b *Bench) Chains(held bool) Workload {
	flows := b.Count(chainCount)
	name := fmt.Sprintf("%s flows of %d jobs, one after the other", thousands(flows), chainLength)
	if held {
		name += BesideSnapshot
	}
	return b.flows(name, flows*chainLength, held, func(ctx context.Context, s System) error {
		return Share(ctx, Enqueuers, (flows+chainsACall-1)/chainsACall, func(ctx context.Context, i int) error {
			var jobs []Job
			for chain := range min(chainsACall, flows-i*chainsACall) {
				for at := range chainLength {
					j := Job{Mail: letter, Ref: fmt.Sprint(chain, " ", at)}
					if at > 0 {
						j.After = fmt.Sprint(chain, " ", at-1)
					}
					jobs = append(jobs, j)
				}
			}
			return s.Enqueue(ctx, jobs)
		})
	})
}

// Fans is the W13 of wide flows: many jobs come after one, and one after all of those.
func (b *Bench) Fans() Workload {
	width := b.Count(fanWidth)
	flow := slices.Concat([]Job{{Mail: letter, Ref: "first"}}, slices.Repeat([]Job{{Mail: letter, Ref: "page", After: "first"}}, width), []Job{{Mail: letter, After: "page"}})
	name := fmt.Sprintf("%d flows: %s jobs after one, and one after these", fanFlows, thousands(width))
	return b.flows(name, fanFlows*len(flow), false, func(ctx context.Context, s System) error {
		return Share(ctx, Enqueuers, fanFlows, func(ctx context.Context, _ int) error { return s.Enqueue(ctx, flow) })
	})
}

func (b *Bench) flows(name string, n int, held bool, enqueue func(context.Context, System) error) Workload {
	return Workload{
		ID: "W13", Name: name, Rows: append(throughput(), Row{Key: "enqueue", Name: "enqueue", Unit: "jobs/s"}),
		Postgres: held, Conns: conns(1, b.Pool), Takes: timeFor(n, 5_000),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) {
				if held {
					release, err := holdSnapshot(ctx, o.place.URL)
					if err != nil {
						return Measured{}, err
					}
					defer release()
				}
				began := time.Now()
				if err := enqueue(ctx, o); err != nil {
					return Measured{}, err
				}
				took := time.Since(began)
				m, err := b.drain(ctx, o, b.Handlers, n)
				if err == nil {
					m.Figures["enqueue"] = float64(n) / took.Seconds()
				}
				return m, err
			})
		},
	}
}

// Hops is the W13 of one long chain, which two other processes work: the time from the start of each
// job's handler to that of the next one counts.
func (b *Bench) Hops() Workload {
	n := b.Count(hopCount)
	return Workload{
		ID: "W13", Name: fmt.Sprintf("a chain of %s jobs, two worker processes: start to next start", thousands(n)),
		Rows:  []Row{{Key: "p50", Name: "p50", Unit: "ms"}, {Key: "p99", Name: "p99", Unit: "ms"}},
		Conns: conns(3, b.Pool), Takes: timeFor(n, 200),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) {
				return b.hops(ctx, o, order{System: p.Name, Place: o.place, Pool: b.Pool, Handlers: b.Handlers}, n)
			})
		},
	}
}

func (b *Bench) hops(ctx context.Context, s System, o order, n int) (Measured, error) {
	chain := make([]Job, n)
	for i := range chain {
		chain[i] = Job{Mail: letter, Ref: fmt.Sprint(i)}
		if chain[i].Mail.Sent = 1; i > 0 { // any time: it has the start reported
			chain[i].After = fmt.Sprint(i - 1)
		}
	}
	var all []handlers
	var starts []Start
	var err error
	for i := 0; err == nil && i < 2; i++ {
		var w *worker
		if w, err = b.spawn(ctx, fmt.Sprint("worker", i+1), o); err == nil {
			all = append(all, w)
			err = w.begin(ctx)
		}
	}
	if err == nil {
		err = s.Enqueue(ctx, chain)
	}
	if err == nil {
		err = await(ctx, n, all...)
	}
	for _, h := range all {
		r, ended := h.end()
		starts, err = append(starts, r.Starts...), errors.Join(err, ended)
	}
	if err != nil {
		return Measured{}, err
	}
	slices.SortFunc(starts, func(a, b Start) int { return int(a.At - b.At) })
	var hops []time.Duration
	for i := 1; i < len(starts); i++ {
		hops = append(hops, time.Duration(starts[i].At-starts[i-1].At))
	}
	return Measured{Figures: map[string]float64{"p50": ms(quantile(hops, 0.50)), "p99": ms(quantile(hops, 0.99))}}, nil
}
