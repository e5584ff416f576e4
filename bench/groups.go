package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// groupWorkloads are W7: jobs of which one of each group may run at a time.
func groupWorkloads() []workload {
	list := []workload{}
	for _, c := range []struct {
		name   string
		target string
		group  func(i int) string
	}{
		{"6,000 groups", "40k", func(i int) string { return fmt.Sprint(i % 6000) }},
		{"half of the jobs in 6,000 groups", "50k", func(i int) string {
			if i%2 == 0 {
				return ""
			}
			return fmt.Sprint(i / 2 % 6000)
		}},
		{"10 hot groups", "10k", func(i int) string { return fmt.Sprint(i % 10) }},
	} {
		list = append(list,
			workload{id: "W7", name: c.name + ", 4 claimers", rows: throughput(c.target), contenders: []contender{{"dibs", grouped(c.group, false)}}},
			workload{id: "W7", name: c.name + ", worker", rows: throughput(c.target), contenders: []contender{{"dibs", grouped(c.group, true)}}},
		)
	}
	return append(list, workload{
		id: "W7", name: "20,000 free jobs behind 40,000 of one group",
		rows:       []row{{key: "free", name: "until the free ones are done", unit: "s", target: "0.5"}},
		contenders: []contender{{"dibs", behindHotGroup}},
	})
}

const (
	groupJobs  = 60_000
	groupBatch = 100
)

// grouped drains jobs of the groups with a worker, or with claimers that claim 100
// and complete them.
func grouped(group func(i int) string, worker bool) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (measured, error) {
		o, db, err := b.openDibs(ctx)
		if err != nil {
			return measured{}, err
		}
		defer o.close()
		n := b.count(groupJobs)
		if err := fillGroups(ctx, o, n, group); err != nil {
			return measured{}, err
		}
		stop := func() error { return nil }
		m, err := b.timed(ctx, func() (_ int, err error) {
			if worker {
				stop, err = drain(ctx, o, b.handlers, n, nil)
				return n, err
			}
			return n, claimers(ctx, claimerCount, n, func(ctx context.Context) (int, error) { return lifecycle(ctx, db, groupBatch) })
		})
		return m, errors.Join(err, stop(), sound(ctx, db))
	}
}

func fillGroups(ctx context.Context, s system, n int, group func(i int) string) error {
	jobs := letters(n)
	for i := range jobs {
		jobs[i].group = group(i)
	}
	const chunk = 1000
	for at := 0; at < n; at += chunk { // in order
		if err := s.enqueue(ctx, jobs[at:min(at+chunk, n)]); err != nil {
			return err
		}
	}
	return nil
}

// behindHotGroup has a worker do the free jobs that were enqueued after those of one
// group, which run one after the other.
func behindHotGroup(ctx context.Context, b *bench) (measured, error) {
	o, _, err := b.openDibs(ctx)
	if err != nil {
		return measured{}, err
	}
	defer o.close()
	hot, free := b.count(40_000), b.count(20_000)
	err = fillGroups(ctx, o, hot+free, func(i int) string {
		if i < hot {
			return "hot"
		}
		return ""
	})
	if err != nil {
		return measured{}, err
	}
	start := time.Now()
	stop, err := drain(ctx, o, b.handlers, free, func(group string) bool { return group == "" })
	took := time.Since(start)
	if stop != nil {
		err = errors.Join(err, stop())
	}
	return measured{figures: map[string]float64{"free": took.Seconds()}}, err
}
