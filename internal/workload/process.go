package workload

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/session"
)

// Lone is what a worker process costs: memory while it is busy, and everything else
// while it is not.
func (b *Bench) Lone() Workload {
	return Workload{
		ID: "idle", Name: "a worker process",
		Rows: []Row{
			{Key: "cpu", Name: "idle: its CPU", Unit: "%"},
			{Key: "transactions", Name: "idle: transactions in the database", Unit: "/s"},
			{Key: "server", Name: "idle: the server's CPU", Unit: "%"},
			{Key: "memory", Name: "most memory, drain of " + thousands(b.BulkJobs()), Unit: "MB"},
		},
		Conns: conns(2, b.Pool), Takes: per(b.BulkJobs(), 25_000) + b.settleTime() + b.duration(idleTime),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.In(ctx, func(place Place) (Measured, error) { return b.lone(ctx, p, place) })
		},
	}
}

const (
	// PostgreSQL's processes say up to 10 s later what they have done.
	lateness = 12 * time.Second
	idleTime = 30 * time.Second
)

// settleTime is how long it takes until what the drain did is in the statistics. Only
// where that was little, they are read before.
func (b *Bench) settleTime() time.Duration { return min(lateness, b.duration(10*lateness)) }

// lone has a process of its own drain the jobs, and watches it idle after that.
func (b *Bench) lone(ctx context.Context, p Product, place Place) (Measured, error) {
	n := b.BulkJobs()
	if err := b.fillAt(ctx, p, place, n); err != nil {
		return Measured{}, err
	}
	c, err := b.spawn(ctx, "worker", order{System: p.Name, Place: place, Pool: b.Pool, Handlers: b.Handlers})
	if err != nil {
		return Measured{}, err
	}
	err = c.begin()
	if err == nil {
		err = await(ctx, n, c)
	}
	m := Measured{Figures: map[string]float64{}}
	if err == nil {
		err = b.watch(ctx, place, c.OS.Pid, m.Figures)
	}
	r, ended := c.end()
	if r.MB > 0 {
		m.Figures["memory"] = r.MB
	}
	return m, errors.Join(err, ended)
}

// fillAt enqueues n jobs by a system of its own, which it closes.
func (b *Bench) fillAt(ctx context.Context, p Product, place Place, n int) error {
	s, err := p.Attach(ctx, place, b.Pool, false)
	if err != nil {
		return err
	}
	defer s.Close()
	return fill(ctx, s, n, fillChunk)
}

// watch adds what an idle process costs to the figures.
func (b *Bench) watch(ctx context.Context, place Place, pid int, figures map[string]float64) error {
	if b.Server != nil {
		if err := vacuum(ctx, place); err != nil {
			return err
		}
	}
	if err := sleep(ctx, b.settleTime()); err != nil { // what the work left to do ends
		return err
	}
	before, err := b.idle(ctx, place, pid)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := sleep(ctx, b.duration(idleTime)); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := b.idle(ctx, place, pid)
	if err != nil {
		return err
	}
	if b.Server != nil {
		figures["transactions"] = (after.transactions - before.transactions) / took.Seconds()
	}
	if after.own > 0 {
		figures["cpu"] = 100 * float64(after.own-before.own) / float64(took)
	}
	if after.server > 0 {
		figures["server"] = 100 * float64(after.server-before.server) / float64(took)
	}
	return nil
}

// vacuum leaves autovacuum nothing to do, whose transactions the server counts too.
func vacuum(ctx context.Context, place Place) error {
	conn, err := session.Connect(ctx, place.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `select format('vacuum analyze %I.%I', schemaname, tablename) from pg_tables
		where schemaname not in ('pg_catalog', 'information_schema') and ($1 = '' or schemaname = $1)`, place.Schema)
	if err != nil {
		return err
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, vacuum := range statements {
		if err == nil {
			_, err = conn.Exec(ctx, vacuum)
		}
	}
	return err
}

// idled is what a process and the server have used so far.
type idled struct {
	own, server  time.Duration
	transactions float64
}

func (b *Bench) idle(ctx context.Context, place Place, pid int) (r idled, err error) {
	r.own, r.server = processCPU(pid), b.Server.cpu()
	if b.Server != nil {
		r.transactions, err = b.Server.transactions(ctx, place.URL)
	}
	return r, err
}
