package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// Fleet is W12: worker processes share one SQLite file. Each serves all the queues with 10
// handlers, which take 5 ms.
type Fleet struct {
	Processes, Queues, Jobs int
}

// Fleets are the sizes that W12 compares.
var Fleets = []Fleet{{1, 1, 3000}, {10, 1, 3000}, {60, 1, 3000}, {200, 1, 3000}, {20, 100, 6000}}

const (
	fleetHandlers = 10
	fleetJobTime  = 5 * time.Millisecond
	fleetPatience = time.Minute // a fleet that starves is measured by the jobs done until then
	fleetLease    = 10 * time.Second
)

// Workload measures the fleet.
func (f Fleet) Workload(b *Bench) Workload {
	return Workload{
		ID: "W12", Name: fmt.Sprintf("%s jobs of 5 ms, worker processes: %d, queues: %d", thousands(b.Count(f.Jobs)), f.Processes, f.Queues),
		Rows: []Row{
			{Key: "rate", Name: "rate", Unit: "jobs/s"},
			{Key: "wall", Name: "until all are done, 60 s at most", Unit: "s"},
			{Key: "client", Name: "the processes' CPU", Unit: "us/job"},
			{Key: "again", Name: "jobs started more than once"},
			{Key: "lost", Name: "leases lost"},
			{Key: "p99", Name: "claim, 99 %", Unit: "ms"},
		},
		Takes: time.Minute,
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.In(ctx, func(place Place) (Measured, error) { return b.fleet(ctx, p, place, f) })
		},
	}
}

func (b *Bench) fleet(ctx context.Context, p Product, place Place, f Fleet) (m Measured, err error) {
	n := b.Count(f.Jobs)
	if err := b.fillQueues(ctx, p, place, f.queues(), n); err != nil {
		return m, err
	}
	children := make([]*worker, f.Processes)
	defer func() { err = errors.Join(err, killAll(children)) }()
	err = Share(ctx, 8, f.Processes, func(ctx context.Context, i int) (err error) {
		children[i], err = b.spawn(ctx, fmt.Sprintf("worker-%d", i+1), order{System: p.Name, Place: place, Fleet: f.queues()})
		return err
	})
	if err != nil {
		return m, err
	}
	before := cpuOf(children)
	limited, cancel := context.WithTimeout(ctx, fleetPatience)
	defer cancel()
	start := time.Now()
	err = Share(limited, f.Processes, f.Processes, func(ctx context.Context, i int) error { return children[i].begin(ctx) })
	if err == nil {
		err = await(limited, n, children...)
	}
	took, cpu := time.Since(start), cpuOf(children)-before
	if err != nil && limited.Err() == nil || ctx.Err() != nil {
		return m, err
	}
	m.Figures = map[string]float64{"wall": took.Seconds()}
	return m, fleetFigures(m.Figures, children, took, cpu)
}

// fleetFigures ends the processes, and adds up what they report.
func fleetFigures(figures map[string]float64, children []*worker, took, cpu time.Duration) error {
	var sum report
	var mu sync.Mutex
	err := Share(context.Background(), len(children), len(children), func(_ context.Context, i int) error {
		r, err := children[i].end()
		mu.Lock()
		defer mu.Unlock()
		sum.Count += r.Count
		sum.Started, sum.Lost, sum.Claims = sum.Started+r.Started, sum.Lost+r.Lost, append(sum.Claims, r.Claims...)
		return err
	})
	figures["rate"] = float64(sum.Count) / took.Seconds()
	figures["client"] = micros(cpu) / float64(max(sum.Count, 1))
	figures["again"], figures["lost"] = float64(sum.Started-sum.Count), float64(sum.Lost)
	figures["p99"] = ms(quantile(sum.Claims, 0.99))
	return err
}

func (f Fleet) queues() []string {
	names := make([]string, f.Queues)
	for i := range names {
		names[i] = fmt.Sprintf("queue%03d", i)
	}
	return names
}

// fillQueues spreads n jobs over the queues.
func (b *Bench) fillQueues(ctx context.Context, p Product, place Place, queues []string, n int) error {
	s, err := b.open(ctx, p, place, false)
	if err != nil {
		return err
	}
	defer s.Close()
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: queues[i%len(queues)], Kind: MailKind, Payload: letter}
	}
	for chunk := range slices.Chunk(jobs, fillChunk) {
		if _, err := s.(dibsSystem).db.Enqueue(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

func cpuOf(children []*worker) (sum time.Duration) {
	for _, c := range children {
		sum += processCPU(c.OS.Pid)
	}
	return sum
}

// killAll ends the processes that have not ended yet.
func killAll(children []*worker) (err error) {
	for _, c := range children {
		if c != nil {
			err = errors.Join(err, c.Kill())
		}
	}
	return err
}

// serveFleet is one worker of a fleet.
func (d *journal) serveFleet(ctx context.Context, s dibs.Store, queues []string) (stop func() error) {
	w := &dibs.Worker{Store: s, Concurrency: fleetHandlers, Lease: fleetLease, Hooks: dibs.Hooks{
		Log: Warnings,
		Claimed: func(_ []*dibs.RawJob, took time.Duration) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.claims = append(d.claims, took)
		},
		Started:   func(context.Context, *dibs.RawJob) { d.started.Add(1) },
		LeaseLost: func(*dibs.RawJob, error) { d.lost.Add(1) },
		Finished: func(a dibs.Attempt) {
			if a.NotWritten == nil && a.Outcome.Ending == dibs.EndCompleted {
				d.count.Add(1)
			}
		},
	}}
	for _, q := range queues {
		w.Queues = append(w.Queues, dibs.WorkQueue{Name: q})
	}
	dibs.Handle(w, MailKind, func(context.Context, *dibs.Job[Mail]) error {
		time.Sleep(fleetJobTime)
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}
