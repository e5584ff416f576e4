package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs/internal/workload"
)

// bench is one run of the program.
type bench struct {
	workload.Bench
	progress io.Writer
	rounds   int
	dir      string // for the files of databases
	url      string // of the server, "" if only SQLite is measured
	profile  string // file for profiles of dibs; "" for none
	profiles int    // so far
	waits    bool   // note where the server's processes are while dibs is measured
}

// databases is how the names of those begin that the program makes.
const databases = "dibs_bench_"

// connect reaches the server.
func (b *bench) connect(ctx context.Context, url string) (err error) {
	b.url, b.Place = url, b.database
	b.Server, err = workload.Connect(ctx, url)
	return err
}

// lite is where W10 is measured.
func (b *bench) lite() *workload.Bench {
	lite := b.Bench
	lite.SQLite, lite.Server, lite.Place = true, nil, workload.InFolder(b.dir)
	return &lite
}

// database makes an empty database.
func (b *bench) database(ctx context.Context) (workload.Place, error) {
	name := databases + strings.ToLower(rand.Text())
	if err := b.Server.Exec(ctx, "create database "+name+" template template0"); err != nil {
		return workload.Place{}, err
	}
	b.Server.Checkpoint(ctx)
	u, err := url.Parse(b.url)
	if err != nil {
		return workload.Place{}, err
	}
	u.Path = "/" + name
	return workload.Place{URL: u.String(), Drop: func(ctx context.Context) error {
		return b.Server.Exec(ctx, "drop database "+name+" with (force)")
	}}, nil
}

// process is this program again, as one of the processes of a workload.
func process() (*exec.Cmd, error) {
	self, err := os.Executable()
	return exec.Command(self), err
}

// contender is one of those who do a workload. Their names are the table's columns.
type contender struct {
	name string
	run  func(context.Context) (workload.Measured, error)
}

const bare = "bare table"

// comparison is a workload and those who do it.
type comparison struct {
	workload.Workload
	sqlite     bool     // needs no server
	targets    []string // of its rows
	contenders []contender
	waits      *workload.Waits // dibs'
}

// measure runs the workloads one after the other, each in rounds in which all of its
// contenders take their turn, so that what changes on the machine meanwhile meets all.
func (b *bench) measure(ctx context.Context, list []comparison, r *results) error {
	for _, w := range list {
		done := map[string][]workload.Measured{}
		for round := range b.rounds {
			for _, c := range w.contenders {
				fmt.Fprintf(b.progress, "%-4s %-50s %d/%d  %-10s ", w.ID, w.Name, round+1, b.rounds, c.name)
				m, err := b.Once(ctx, c.run)
				if err != nil {
					fmt.Fprintln(b.progress)
					return fmt.Errorf("%s, %s, %s: %w", w.ID, w.Name, c.name, err)
				}
				first := w.Rows[0]
				fmt.Fprintf(b.progress, "%8s %s\n", workload.Short(m.Figures[first.Key]), first.Unit)
				done[c.name] = append(done[c.name], m)
			}
		}
		r.add(w, done)
	}
	return nil
}

// comparisons are all workloads, in the order of the table.
func (b *bench) comparisons() []comparison {
	list := []comparison{
		b.compare(b.Bulk(1000), "150k; 3 x River, 0.5 x bare").river(b).bare(b, bareCopy(1000)),
		b.compare(b.Bulk(10_000), "200k; 3 x River, 0.5 x bare").river(b).bare(b, bareCopy(10_000)),
		b.compare(b.Single(64), "30k; 10 x River").river(b).bare(b, bareSingle(64)),
		b.compare(b.Single(1000), "60k; 10 x River").river(b).bare(b, bareSingle(1000)),
		b.compare(b.Drain(true), "60k; 3 x River, 0.5 x bare").river(b).bare(b, bareDrain(100)),
		b.compare(b.Drain(false), "80k; 0.5 x bare").bare(b, bareDrain(100)),
		bareWidely(b.Drain(false)).bare(b, bareDrain(1000)),
		b.compare(b.Latency(false), "1.2; 0.5 x River", "5; 0.5 x River").river(b),
		b.compare(b.Latency(true)).river(b),
		b.compare(b.Snapshot(), "30k", "", "0.9").river(b),
		b.compare(b.Depth(), "2"),
	}
	targets := []string{"40k", "40k", "50k", "50k", "10k", "10k"}
	for i, w := range b.Groups() {
		list = append(list, b.compare(w, targets[i]))
	}
	return slices.Concat(list, []comparison{
		b.compare(b.HotGroup(), "0.5"),
		b.compare(b.Lives(), "40k; 10 x bare").bare(b, bareLives),
		b.compare(b.Crowd(), "0.7"),
	}, b.onSQLite(), b.onAdopted(), []comparison{
		b.compare(b.Lone(), "0.5", "1", "", "100").river(b),
	})
}

// compare begins with dibs.
func (b *bench) compare(w workload.Workload, targets ...string) comparison {
	c := comparison{Workload: w, targets: targets, waits: &workload.Waits{}}
	return c.with("dibs", func(ctx context.Context) (workload.Measured, error) {
		return w.Run(ctx, b.observed(&b.Bench, c.waits), workload.Dibs)
	})
}

// bareWidely is a drain of the bare table alone, in batches of 1,000.
func bareWidely(w workload.Workload) comparison {
	w.Name += ", 1,000 at a time"
	return comparison{Workload: w}
}

func (c comparison) with(name string, run func(context.Context) (workload.Measured, error)) comparison {
	c.contenders = append(c.contenders, contender{name, run})
	return c
}

// river lets River do the same.
func (c comparison) river(b *bench) comparison {
	return c.with(asRiver.Name, func(ctx context.Context) (workload.Measured, error) { return c.Run(ctx, &b.Bench, asRiver) })
}

// bare measures with an empty bare table in a database of its own.
func (c comparison) bare(b *bench, measure onBare) comparison {
	return c.with(bare, func(ctx context.Context) (workload.Measured, error) {
		return b.In(ctx, func(place workload.Place) (workload.Measured, error) {
			pool, err := openBare(ctx, place, b.Pool)
			if err != nil {
				return workload.Measured{}, err
			}
			defer pool.Close()
			return measure(ctx, &b.Bench, pool)
		})
	})
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
