package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Groups are W7: claimers, or a worker, do jobs of which one of each group may run at a
// time.
func (b *Bench) Groups() []Workload {
	var list []Workload
	for _, c := range []struct {
		name  string
		rate  int // jobs/s, an estimate for Takes
		group func(i int) string
		rates int // how many groups have a rate; it delays no job of this workload
	}{
		{"6,000 groups", 8000, func(i int) string { return fmt.Sprint(i % 6000) }, 0},
		{"half of the jobs in 6,000 groups", 8000, func(i int) string {
			if i%2 == 0 {
				return ""
			}
			return fmt.Sprint(i / 2 % 6000)
		}, 0},
		{"10 hot groups", 2000, func(i int) string { return fmt.Sprint(i % 10) }, 0},
		{"10,000 groups", 8000, func(i int) string { return fmt.Sprint(i % 10_000) }, 0},
		{"10,000 groups with rates", 4000, func(i int) string { return fmt.Sprint(i % 10_000) }, 10_000},
	} {
		for _, drainer := range []string{drainClaimers, drainWorker} {
			list = append(list, Workload{
				ID: "W7", Name: c.name + ", " + drainer, Rows: throughput(), Conns: conns(1, b.Pool), Takes: timeFor(b.Count(groupJobs), c.rate),
				Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
					return b.withDibs(ctx, p, func(o *opened, db admin.Database) (Measured, error) {
						for i := range c.rates {
							change := dibs.GroupChange{Rate: &dibs.Rate{N: 10_000, Per: time.Second}}
							if err := db.ChangeGroup(ctx, dibs.DefaultQueue, fmt.Sprint(i), change.Apply); err != nil {
								return Measured{}, err
							}
						}
						return b.grouped(ctx, o, db, c.group, drainer == drainWorker)
					})
				},
			})
		}
	}
	return list
}

const (
	drainClaimers = "4 claimers"
	drainWorker   = "worker"

	groupJobs  = 60_000
	groupBatch = 100
)

// grouped drains jobs of the groups with a worker, or with claimers of 100 jobs each.
func (b *Bench) grouped(ctx context.Context, o *opened, db admin.Database, group func(i int) string, worker bool) (m Measured, err error) {
	n := b.Count(groupJobs)
	if err := fillGroups(ctx, o, n, group); err != nil {
		return Measured{}, err
	}
	if worker {
		m, err = b.drain(ctx, o, b.Handlers, n)
	} else {
		m, err = b.Timed(ctx, func() (int, error) {
			return n, Claimers(ctx, ClaimerCount, n, func(ctx context.Context) (int, error) { return lifecycle(ctx, db, groupBatch) })
		})
	}
	if err == nil {
		err = sound(ctx, db)
	}
	return m, err
}

func fillGroups(ctx context.Context, s System, n int, group func(i int) string) error {
	jobs := letters(n)
	for i := range jobs {
		jobs[i].Group = group(i)
	}
	for i := 0; i < n; i += fillChunk { // one after the other, so that ids are in order
		if err := s.Enqueue(ctx, jobs[i:min(i+fillChunk, n)]); err != nil {
			return err
		}
	}
	return nil
}

// HotGroup is W7 too: a worker does jobs without a group, which were enqueued after many
// jobs of one group. Those must run one after the other.
func (b *Bench) HotGroup() Workload {
	hot, free := b.Count(40_000), b.Count(20_000)
	return Workload{
		ID: "W7", Name: thousands(free) + " free jobs behind " + thousands(hot) + " of one group",
		Rows:  []Row{{Key: "free", Name: "until the free ones are done", Unit: "s"}},
		Conns: conns(1, b.Pool), Takes: timeFor(hot+free, 25_000),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.withSystem(ctx, p, false, func(o *opened) (Measured, error) { return b.behindHotGroup(ctx, o, hot, free) })
		},
	}
}

func (b *Bench) behindHotGroup(ctx context.Context, s System, hot, free int) (Measured, error) {
	err := fillGroups(ctx, s, hot+free, func(i int) string {
		if i < hot {
			return "hot"
		}
		return ""
	})
	if err != nil {
		return Measured{}, err
	}
	start := time.Now()
	stop, err := drain(ctx, s, b.Handlers, free, func(group string) bool { return group == "" })
	took := time.Since(start)
	return Measured{Figures: map[string]float64{"free": took.Seconds()}}, errors.Join(err, stop())
}
