package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// processWorkloads are what a worker process costs: memory while it is busy, and
// everything else while it is not.
func processWorkloads() []workload {
	return []workload{{
		id: "idle", name: "a worker process",
		rows: []row{
			{key: "transactions", name: "idle: transactions", unit: "/s", target: "1"},
			{key: "cpu", name: "idle: its CPU", unit: "%", target: "0.5"},
			{key: "server", name: "idle: the server's CPU", unit: "%"},
			{key: "memory", name: "most memory, drain of 100,000", unit: "MB", target: "100"},
		},
		contenders: []contender{{"dibs", lone(onPostgres)}, {"River", lone(asRiver)}},
	}}
}

const idleTime = 30 * time.Second

// lone has a process of its own drain 100,000 jobs, and watches it idle after that.
func lone(p product) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (_ measured, err error) {
		url, drop, err := b.database(ctx)
		if err != nil {
			return measured{}, err
		}
		defer drop()
		n := b.count(100_000)
		if err := b.fillAt(ctx, p, url, n); err != nil {
			return measured{}, err
		}
		c, err := b.spawn(ctx, order{System: p.name, URL: url, Pool: b.pool, Handlers: b.handlers})
		if err != nil {
			return measured{}, err
		}
		err = c.begin()
		if err == nil {
			err = await(ctx, n, c)
		}
		m := measured{figures: map[string]float64{}}
		if err == nil {
			m.figures, err = b.watch(ctx, url, c.cmd.Process.Pid)
		}
		r, ended := c.end()
		if r.MB > 0 {
			m.figures["memory"] = r.MB
		}
		return m, errors.Join(err, ended)
	}
}

// fillAt enqueues n jobs by a system of its own, which it closes.
func (b *bench) fillAt(ctx context.Context, p product, url string, n int) error {
	s, err := p.attach(ctx, url, b.pool, false)
	if err != nil {
		return err
	}
	defer s.close()
	return fill(ctx, s, n, 1000)
}

// watch says what an idle process costs.
func (b *bench) watch(ctx context.Context, url string, pid int) (map[string]float64, error) {
	time.Sleep(b.duration(5 * time.Second)) // what the work left to do ends
	transactions, err := b.transactions(ctx, url)
	if err != nil {
		return nil, err
	}
	own, server, start := processCPU(pid), serverCPU(b.postmaster), time.Now()
	time.Sleep(b.duration(idleTime))
	took := time.Since(start)
	ownAfter, serverAfter := processCPU(pid), serverCPU(b.postmaster)
	more, err := b.transactions(ctx, url)
	figures := map[string]float64{"transactions": (more - transactions) / took.Seconds()}
	if ownAfter > 0 {
		figures["cpu"] = 100 * float64(ownAfter-own) / float64(took)
	}
	if serverAfter > 0 {
		figures["server"] = 100 * float64(serverAfter-server) / float64(took)
	}
	return figures, err
}

// transactions is how many the server counts in the database so far.
func (b *bench) transactions(ctx context.Context, url string) (n float64, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return 0, err
	}
	err = b.admin.QueryRow(ctx, "select xact_commit::float8 from pg_stat_database where datname = $1", config.Database).Scan(&n)
	return n, err
}
