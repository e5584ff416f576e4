package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// bench is one run of the program.
type bench struct {
	progress io.Writer
	rounds   int
	scale    float64
	pool     int    // connections of each pool
	handlers int    // that a worker runs at once
	dir      string // for files

	server     string        // its URL
	admin      *pgxpool.Pool // makes databases and asks what they cost; nil: SQLite only
	postmaster int           // the server's first process, if it runs on this machine under Linux; else 0
}

// connect reaches the server at url.
func (b *bench) connect(ctx context.Context, url string) (err error) {
	b.server = url
	if b.admin, err = pgxpool.New(ctx, url); err != nil {
		return err
	}
	b.postmaster, err = postmaster(ctx, b.admin)
	return err
}

// count is n jobs at the run's scale, at least one for each process of W9.
func (b *bench) count(n int) int { return max(int(float64(n)*b.scale), 40) }

// duration is d at the run's scale.
func (b *bench) duration(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*b.scale), 300*time.Millisecond)
}

const patience = 30 * time.Minute // with one measurement, or with one statement about a database

// database makes an empty database. drop drops it.
func (b *bench) database(ctx context.Context) (address string, drop func(), err error) {
	name := "dibs_bench_" + strings.ToLower(rand.Text())
	if _, err := b.admin.Exec(ctx, "create database "+name+" template template0"); err != nil {
		return "", nil, err
	}
	// So that none comes soon. Who may not ask for one gets figures that spread more.
	_, _ = b.admin.Exec(ctx, "checkpoint")
	u, err := url.Parse(b.server)
	if err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if _, err := b.admin.Exec(ctx, "drop database "+name+" with (force)"); err != nil {
			fmt.Fprintf(b.progress, "database %s is left behind: %v\n", name, err)
		}
	}, nil
}

// file makes a directory for a SQLite file. drop removes both.
func (b *bench) file(context.Context) (path string, drop func(), err error) {
	dir, err := os.MkdirTemp(b.dir, "dibs-bench-")
	if err != nil {
		return "", nil, err
	}
	return filepath.Join(dir, "bench.db"), func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(b.progress, err)
		}
	}, nil
}

// opened is a system in an empty database of its own.
type opened struct {
	system
	url  string
	drop func()
}

func (b *bench) open(ctx context.Context, p product) (*opened, error) {
	place := b.database
	if p.sqlite {
		place = b.file
	}
	url, drop, err := place(ctx)
	if err != nil {
		return nil, err
	}
	s, err := p.attach(ctx, url, b.pool, p.poll)
	if err != nil {
		drop()
		return nil, fmt.Errorf("open %s: %w", p.name, err)
	}
	return &opened{s, url, drop}, nil
}

func (o *opened) close() {
	o.system.close()
	o.drop()
}

// onBare measures with an empty bare table in a database of its own.
func onBare(measure func(context.Context, *bench, *pgxpool.Pool) (measured, error)) func(context.Context, *bench) (measured, error) {
	return func(ctx context.Context, b *bench) (measured, error) {
		pool, drop, err := b.openBare(ctx)
		if err != nil {
			return measured{}, err
		}
		defer drop()
		return measure(ctx, b, pool)
	}
}

func (b *bench) openBare(ctx context.Context) (pool *pgxpool.Pool, drop func(), err error) {
	url, dropDatabase, err := b.database(ctx)
	if err != nil {
		return nil, nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err == nil {
		config.MaxConns = int32(b.pool)
		pool, err = pgxpool.NewWithConfig(ctx, config)
	}
	if err == nil {
		_, err = pool.Exec(ctx, bareTable)
	}
	drop = func() {
		if pool != nil {
			pool.Close()
		}
		dropDatabase()
	}
	if err != nil {
		drop()
		return nil, nil, err
	}
	return pool, drop, nil
}

// share has n goroutines call f with the numbers below total, each once.
func share(ctx context.Context, n, total int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(n)
	for i := range total {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// calls has n goroutines call f again and again for d, and returns how many calls there were.
func calls(ctx context.Context, n int, d time.Duration, f func(context.Context) error) (int, error) {
	end := time.Now().Add(d)
	group, ctx := errgroup.WithContext(ctx)
	counts := make([]int, n)
	for i := range n {
		group.Go(func() error {
			for time.Now().Before(end) {
				if err := f(ctx); err != nil {
					return err
				}
				counts[i]++
			}
			return nil
		})
	}
	err := group.Wait()
	sum := 0
	for _, c := range counts {
		sum += c
	}
	return sum, err
}

// asDebian undoes what a throw-away server has set otherwise.
func asDebian(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, setting := range []string{"max_connections = 100", "max_wal_size = '1GB'"} {
		if _, err := conn.Exec(ctx, "alter system set "+setting); err != nil {
			return err
		}
	}
	return nil
}
