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

	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// bench is one run of the program.
type bench struct {
	workload.Bench
	progress        io.Writer
	rounds          int
	dir             string // folder for the databases' files
	url             string // URL of the server; "" if only SQLite is measured
	profilePath     string // file for profiles of dibs; "": no profiles
	profilesWritten int
	waits           bool // sample the server's processes while dibs is measured
}

// databasePrefix begins the names of the databases that the program creates.
const databasePrefix = "dibs_bench_"

// connect connects to the server.
func (b *bench) connect(ctx context.Context, url string) (err error) {
	b.url, b.Place = url, b.createDatabase
	b.Server, err = workload.Connect(ctx, url)
	return err
}

// lite returns the settings for measurements on SQLite.
func (b *bench) lite() *workload.Bench {
	lite := b.Bench
	lite.SQLite, lite.Server, lite.Place = true, nil, workload.InFolder(b.dir)
	return &lite
}

// createDatabase creates an empty database.
func (b *bench) createDatabase(ctx context.Context) (workload.Place, error) {
	name := databasePrefix + strings.ToLower(rand.Text())
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

// process returns the command of a worker process, which is this program again.
func process() (*exec.Cmd, error) {
	self, err := os.Executable()
	return exec.Command(self), err
}

// contender is one of the systems that are compared. Its name heads a column of the table.
type contender struct {
	name string
	run  func(context.Context) (workload.Measured, error)
}

const bare = "bare table"

// comparison is a workload with its contenders.
type comparison struct {
	workload.Workload
	sqlite     bool     // needs no server
	targets    []string // targets of its rows
	contenders []contender
	waits      *workload.Waits // samples for dibs
}

// measure runs the workloads one after the other, each in rounds of all contenders, so
// that a change of the machine's load affects all of them.
func (b *bench) measure(ctx context.Context, list []comparison, r *results) error {
	for _, w := range list {
		runs := map[string][]workload.Measured{}
		for round := range b.rounds {
			for _, c := range w.contenders {
				fmt.Fprintf(b.progress, "%-4s %-50s %d/%d  %-15s ", w.ID, w.Name, round+1, b.rounds, c.name)
				m, err := b.Once(ctx, c.run)
				if err != nil {
					fmt.Fprintln(b.progress)
					return fmt.Errorf("%s, %s, %s: %w", w.ID, w.Name, c.name, err)
				}
				first := w.Rows[0]
				fmt.Fprintf(b.progress, "%8s %s\n", workload.Short(m.Figures[first.Key]), first.Unit)
				runs[c.name] = append(runs[c.name], m)
			}
		}
		r.add(w, runs)
	}
	return nil
}

// Targets of W1 and W3 by the size of the payload.
var (
	bulkTargets    = map[int]string{workload.LetterBytes: "150k; 3 x River, 0.5 x bare"}
	keptTargets    = map[int]string{workload.LetterBytes: "60k; 3 x River, 0.5 x bare"}
	deletedTargets = map[int]string{workload.LetterBytes: "80k; 0.5 x bare"}
)

// comparisons lists all comparisons, in the order of the table.
func (b *bench) comparisons() []comparison {
	const usual = workload.LetterBytes
	river, graphile, pgBoss := []workload.Product{riverProduct}, nodeProduct(graphileName), nodeProduct(pgBossName)
	bulks, drains := []comparison{}, []comparison{}
	for _, size := range workload.Sizes {
		bulks = append(bulks, b.compare(b.Bulk(1000, size), bulkTargets[size]).beside(b, river, graphile, pgBoss).bare(b, bareCopy(1000, size)))
		drains = append(drains,
			b.compare(b.Drain(size, true), keptTargets[size]).beside(b, river, pgBoss).bare(b, bareDrain(100, size)),
			b.compare(b.Drain(size, false), deletedTargets[size]).beside(b, graphile).bare(b, bareDrain(100, size)))
	}
	list := slices.Concat(bulks, []comparison{
		b.compare(b.Bulk(10_000, usual), "200k; 3 x River, 0.5 x bare").beside(b, river).bare(b, bareCopy(10_000, usual)),
		b.compare(b.Single(64), "30k; 10 x River").beside(b, river).bare(b, bareSingle(64)),
		b.compare(b.Single(1000), "60k; 10 x River").beside(b, river).bare(b, bareSingle(1000)),
	}, drains, []comparison{
		bareWidely(b.Drain(usual, false)).bare(b, bareDrain(1000, usual)),
		b.compare(b.FewHandlers()).beside(b, river),
		b.compare(b.Latency(false, false), "1.2; 0.5 x River", "5; 0.5 x River").beside(b, river, graphile, pgBoss),
		b.compare(b.Latency(false, true)).beside(b, river),
		b.compare(b.Latency(true, false)).beside(b, river),
		b.compare(b.ClosedLoop(true), "30k", "", "0.9").beside(b, river, graphile, pgBoss),
		b.compare(b.ClosedLoop(false)).beside(b, river, graphile, pgBoss),
		b.compare(b.Depth(), "2"),
	})
	targets := [][]string{{"40k"}, {"40k"}, {"50k"}, {"50k"}, {"10k"}, {"10k"}, {}, {}, {}, {}}
	for i, w := range b.Groups() {
		list = append(list, b.compare(w, targets[i]...))
	}
	return slices.Concat(list, []comparison{
		b.compare(b.HotGroup(), "0.5"),
		b.compare(b.Lives(), "40k; 10 x bare").bare(b, bareLives),
		b.compare(b.Crowd(), "0.7"),
		b.compare(b.FirstJob(false)).beside(b, river),
		b.compare(b.FirstJob(true)).beside(b, river),
		b.compare(b.Chains(false)).beside(b, pgBoss),
		b.compare(b.Chains(true)).beside(b, pgBoss),
		b.compare(b.Fans()).beside(b, pgBoss),
		b.compare(b.Hops()).beside(b, pgBoss),
	}, b.onSQLite(), b.onAdopted(), []comparison{
		b.compare(b.WorkerProcess(), "0.5", "1", "", "100").beside(b, river),
	})
}

// compare makes a comparison whose first contender is dibs.
func (b *bench) compare(w workload.Workload, targets ...string) comparison {
	c := comparison{Workload: w, targets: targets, waits: &workload.Waits{}}
	return c.add("dibs", func(ctx context.Context) (workload.Measured, error) {
		return w.Run(ctx, b.observed(&b.Bench, c.waits), workload.Dibs)
	})
}

// bareWidely makes a comparison for draining only the bare table, in batches of 1,000.
func bareWidely(w workload.Workload) comparison {
	w.Name += ", 1,000 at a time"
	return comparison{Workload: w}
}

func (c comparison) add(name string, run func(context.Context) (workload.Measured, error)) comparison {
	c.contenders = append(c.contenders, contender{name, run})
	return c
}

// beside adds other queues as contenders.
func (c comparison) beside(b *bench, lists ...[]workload.Product) comparison {
	for _, p := range slices.Concat(lists...) {
		c = c.add(p.Name, func(ctx context.Context) (workload.Measured, error) {
			m, err := c.Run(ctx, &b.Bench, p)
			if p.Name != riverProduct.Name { // its client is another process than the one that was metered
				delete(m.Figures, "client")
				delete(m.Figures, "allocs")
			}
			return m, err
		})
	}
	return c
}

// bare adds a contender with an empty bare table in a database of its own.
func (c comparison) bare(b *bench, measure onBare) comparison {
	return c.add(bare, func(ctx context.Context) (workload.Measured, error) {
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

// setDefaults undoes the settings of a throw-away server that differ from Debian's.
func setDefaults(ctx context.Context, url string) error {
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
