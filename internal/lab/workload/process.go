package workload

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/session"
)

// WorkerProcess measures the cost of a worker process: its memory while it is busy, the rest while
// it is idle.
func (b *Bench) WorkerProcess() Workload {
	return Workload{
		ID: "idle", Name: "a worker process",
		Rows: []Row{
			{Key: "cpu", Name: "idle: its CPU", Unit: "%"},
			{Key: "transactions", Name: "idle: transactions in the database", Unit: "/s"},
			{Key: "server", Name: "idle: the server's CPU", Unit: "%"},
			{Key: "memory", Name: "most memory, drain of " + thousands(b.BulkJobs(LetterBytes)), Unit: "MB"},
		},
		Conns: conns(2, b.Pool), Takes: timeFor(b.BulkJobs(LetterBytes), 25_000) + b.settleTime() + b.duration(idleTime),
		Run: func(ctx context.Context, b *Bench, p Product) (Measured, error) {
			return b.In(ctx, func(place Place) (Measured, error) { return b.workerProcess(ctx, p, place) })
		},
	}
}

const (
	// statsDelay is longer than the 10 s after which PostgreSQL's statistics are complete.
	statsDelay = 12 * time.Second
	idleTime   = 30 * time.Second
)

// settleTime is the wait until the statistics include the drain. With a small scale, whose
// drain is short, it is less than statsDelay.
func (b *Bench) settleTime() time.Duration { return min(statsDelay, b.duration(10*statsDelay)) }

// workerProcess lets a process drain the jobs, and watches it while it is idle afterwards.
func (b *Bench) workerProcess(ctx context.Context, p Product, place Place) (Measured, error) {
	n := b.BulkJobs(LetterBytes)
	if err := b.fillAt(ctx, p, place, n); err != nil {
		return Measured{}, err
	}
	c, err := b.spawn(ctx, "worker", order{System: p.Name, Place: place, Pool: b.Pool, Handlers: b.Handlers})
	if err != nil {
		return Measured{}, err
	}
	err = c.begin(ctx)
	if err == nil {
		err = await(ctx, n, c)
	}
	m := Measured{Figures: map[string]float64{}}
	if err == nil {
		err = b.watchIdle(ctx, place, c.OS.Pid, m.Figures)
	}
	r, ended := c.end()
	if r.MB > 0 {
		m.Figures["memory"] = r.MB
	}
	return m, errors.Join(err, ended)
}

// fillAt opens a system, enqueues n jobs and closes it.
func (b *Bench) fillAt(ctx context.Context, p Product, place Place, n int) error {
	s, err := b.open(ctx, p, place, false)
	if err != nil {
		return err
	}
	defer s.Close()
	return fill(ctx, s, letter, n, fillChunk)
}

// watchIdle adds the cost of an idle process to the figures.
func (b *Bench) watchIdle(ctx context.Context, place Place, pid int, figures map[string]float64) error {
	if b.Server != nil {
		if err := vacuum(ctx, place); err != nil {
			return err
		}
	}
	if err := sleep(ctx, b.settleTime()); err != nil { // upkeep after the drain ends meanwhile
		return err
	}
	before, err := b.readUsage(ctx, place, pid)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := sleep(ctx, b.duration(idleTime)); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := b.readUsage(ctx, place, pid)
	if err != nil {
		return err
	}
	if b.Server != nil {
		figures["transactions"] = (after.transactions - before.transactions) / took.Seconds()
	}
	if after.clientCPU > 0 {
		figures["cpu"] = 100 * float64(after.clientCPU-before.clientCPU) / float64(took)
	}
	if after.serverCPU > 0 {
		figures["server"] = 100 * float64(after.serverCPU-before.serverCPU) / float64(took)
	}
	return nil
}

// vacuum does the work of autovacuum first, whose transactions the server would count too.
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

// usage holds what a process and the server have used so far.
type usage struct {
	clientCPU, serverCPU time.Duration
	transactions         float64
}

func (b *Bench) readUsage(ctx context.Context, place Place, pid int) (r usage, err error) {
	r.clientCPU, r.serverCPU = processCPU(pid), b.Server.cpu()
	if b.Server != nil {
		r.transactions, err = b.Server.transactions(ctx, place.URL)
	}
	return r, err
}
