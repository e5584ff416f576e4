package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/runner"
	"github.com/dibs-queue/dibs/internal/lab/workload"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
)

// benchOptions holds the flags of dibs bench.
type benchOptions struct {
	workloads []string
	rounds    int
	scale     float64
	pool      int
	list      bool
}

// benchHandlers is the number of handlers that a worker runs at once.
const benchHandlers = 2000

func newBenchCmd(a *app) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast dibs is on your own server",
		Long: `Measure how fast dibs is on your own server: enqueueing, claiming, finishing, the time
until a job starts, and what stays of it under a long transaction, beside millions of
jobs, with groups, and with thousands of claimers.

It says beforehand about how long that takes: all workloads a few minutes; --workload and
--scale make it shorter. In the end it shows each figure, and what it depends on:
the machine, the database's version and settings. Figures of small scales are rough. The
CPU of a PostgreSQL server is measured if it runs on this machine, under Linux; that, the
log it writes and its transactions are what the whole server or database does, so that
other work adds to them.

It uses SQLite files of its own in a temporary folder. With --db sqlite:PATH they lie
beside PATH, which it does not open; with --db postgres://… it uses a schema of its own in
that database. It removes them, also after Ctrl-C, and touches nothing else there. But the
server is kept busy, one workload holds a snapshot for 90 s (W5), and one needs 3 GB of disk
(W6), both at --scale 1: so it asks for --db, and uses neither $DIBS_DB nor its default.

If dibs bench is killed with SIGKILL, or by a second Ctrl-C, it cannot clean up. It then leaves
behind
  a folder dibs-bench-… in the temporary one, and on SQLite others beside PATH
  on PostgreSQL the schema that its first line names: drop schema dibs_bench_… cascade`,
		Example: `  dibs bench
  dibs bench --db postgres://localhost/mydb --rounds 3
  dibs bench --db postgres://localhost/mydb --workload W3,W5 --json
  dibs bench --list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkBench(cmd, &o); err != nil {
				return err
			}
			if o.list {
				return a.listWorkloads(&o)
			}
			return a.bench(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.workloads, "workload", nil, "`WORKLOADS` to run, such as W3,W5; default: all")
	f.IntVar(&o.rounds, "rounds", 1, "how often each is measured, 1 to 100; the median counts")
	f.Float64Var(&o.scale, "scale", 1, "multiplies every number of jobs and every time, 0.001 to 10")
	f.IntVar(&o.pool, "pool", 16, "connections of each process' pool, 4 to 1000")
	f.BoolVar(&o.list, "list", false, "run nothing: list the workloads")
	a.ownTables(cmd)
	cmd.AddCommand(newBenchProcessCmd(a))
	return cmd
}

// newBenchProcessCmd is the command of the workloads' processes. It ends with its stdin,
// which the bench keeps open until its own end.
func newBenchProcessCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "process",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(os.Interrupt) // the parent process ends this one
			return workload.Serve(context.WithoutCancel(cmd.Context()), a.Stdin, a.Screen, workload.Dibs)
		},
	}
}

func (a *app) checkBench(cmd *cobra.Command, o *benchOptions) error {
	changed := cmd.Flags().Changed
	switch {
	case changed("schema") || changed("prefix"):
		return cmdline.Usagef(cmd, "the bench makes a schema of its own; leave out --schema and --prefix")
	case changed("db") && a.DBFlag == "":
		// Perhaps from an unset variable: to ignore the flag would measure another database.
		return cmdline.Usagef(cmd, "--db is empty; give it a value or leave it out")
	case changed("workload") && len(o.workloads) == 0:
		return cmdline.Usagef(cmd, "--workload is empty; give it a value or leave it out")
	case o.rounds < 1 || o.rounds > 100:
		return cmdline.Usagef(cmd, "--rounds must be 1 to 100, got %d", o.rounds)
	case !(o.scale >= 0.001 && o.scale <= 10): // written so that NaN is refused
		return cmdline.Usagef(cmd, "--scale must be 0.001 to 10, got %v", o.scale)
	case o.pool < 4 || o.pool > 1000:
		return cmdline.Usagef(cmd, "--pool must be 4 to 1000, got %d", o.pool)
	}
	return nil
}

// bench measures and shows the results, even those before an interrupt.
func (a *app) bench(cmd *cobra.Command, o *benchOptions) (err error) {
	ctx, path, server := cmd.Context(), "", ""
	if a.DBFlag != "" {
		if path, server, err = open.Place(a.DBFlag); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "dibs-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	spawner := runner.NewSpawner()
	defer spawner.Close()
	b := &workload.Bench{
		Scale: o.scale, Pool: o.pool, Handlers: benchHandlers, Dir: dir,
		Command: benchProcess, Launch: spawner.Start,
	}
	list, err := chooseWorkloads(cmd, workload.All(b), server != "" && !hasTables(a.DBFlag), o.workloads)
	if err != nil {
		return err
	}
	r := &benchReport{Rounds: o.rounds, Scale: o.scale, Pool: o.pool, Handlers: benchHandlers, Dibs: readVersion().Version}
	where := ""
	if server == "" {
		where, err = benchFiles(ctx, b, r, path)
	} else if hasTables(a.DBFlag) {
		where, err = a.benchTables(ctx, b, r, server)
	} else if b.Server, err = workload.Connect(ctx, server); err == nil {
		defer b.Server.Close()
		where, err = a.benchSchema(ctx, b, r, server, list)
	}
	if err != nil {
		return err
	}
	screen := a.newBenchScreen(where, list, o)
	err = measureAll(ctx, b, list, r, screen)
	screen.close()
	r.Interrupted = ctx.Err() != nil
	if len(r.Workloads) > 0 {
		err = errors.Join(err, a.writeBench(r))
	}
	return err
}

// measureAll adds the figures of each workload to the report when all of its rounds are
// done.
func measureAll(ctx context.Context, b *workload.Bench, list []workload.Workload, r *benchReport, screen *benchScreen) error {
	for _, w := range list {
		var runs []workload.Measured
		for round := range r.Rounds {
			screen.begin(w)
			m, err := b.Once(ctx, func(ctx context.Context) (workload.Measured, error) { return w.Run(ctx, b, workload.Dibs) })
			if err != nil {
				return fmt.Errorf("%s, %s: %w", w.ID, w.Name, err)
			}
			screen.end(w, round, m)
			runs = append(runs, m)
		}
		r.add(w, runs)
	}
	return nil
}

// benchProcess returns the command of a workload's process, which is this program.
func benchProcess() (*exec.Cmd, error) {
	program, err := os.Executable()
	return exec.Command(program, "bench", "process"), err
}

// benchSchema makes b measure in a schema of its own, describes it, and reads the server's
// settings.
func (a *app) benchSchema(ctx context.Context, b *workload.Bench, r *benchReport, server string, list []workload.Workload) (where string, err error) {
	schema := "dibs_bench_" + randomName()
	drop := "drop schema if exists " + pgx.Identifier{schema}.Sanitize() + " cascade"
	b.Place = func(ctx context.Context) (workload.Place, error) {
		b.Server.Checkpoint(ctx)
		return workload.Place{URL: server, Schema: schema, Drop: func(ctx context.Context) error {
			err := b.Server.Exec(ctx, drop)
			if err != nil {
				fmt.Fprintf(a.Stderr, "dibs: schema %s is left behind: %v\n", schema, err)
			}
			return err
		}}, nil
	}
	r.Database, r.machine = "PostgreSQL", workload.Machine("")
	if r.server, err = b.Server.Settings(ctx); err == nil {
		err = enoughConns(ctx, b, list)
	}
	return "PostgreSQL, schema " + schema, err
}

// hasTables reports whether dibs has tables of its own on the server, and no schema.
func hasTables(u open.URL) bool { return open.IsMariaDB(u) || open.IsSQLServer(u) }

// benchTables is benchSchema for MariaDB and SQL Server, where dibs has tables of its own.
func (a *app) benchTables(ctx context.Context, b *workload.Bench, r *benchReport, server string) (where string, err error) {
	o, where, err := open.Named(a.DBFlag, "dibs_bench_"+randomName())
	b.Place = func(context.Context) (workload.Place, error) {
		return workload.Place{URL: server, Prefix: o.Prefix, Drop: func(ctx context.Context) error {
			_, err := open.Remove(ctx, a.DBFlag, o)
			return err
		}}, nil
	}
	r.Database, r.machine = "MariaDB", workload.Machine("")
	if open.IsSQLServer(a.DBFlag) {
		r.Database = "SQL Server"
	} else if err == nil {
		r.server, err = workload.MariaDBSettings(ctx, server)
	}
	return where, err
}

// benchFiles is benchSchema for SQLite: beside path or, without one, in the temporary folder.
func benchFiles(ctx context.Context, b *workload.Bench, r *benchReport, path string) (where string, err error) {
	dir := b.Dir
	if path != "" {
		dir = filepath.Dir(path)
	}
	where = "SQLite files of its own in " + dir
	b.SQLite, b.Place = true, workload.InFolder(dir)
	r.Database, r.machine = "SQLite", workload.Machine(dir)
	_, err = b.In(ctx, func(place workload.Place) (_ workload.Measured, err error) {
		r.server, err = workload.LiteSettings(ctx, place)
		return workload.Measured{}, err
	})
	return where, err
}

// chooseWorkloads keeps the named workloads, or all, that the kind of database supports.
func chooseWorkloads(cmd *cobra.Command, all []workload.Workload, onPostgres bool, ids []string) ([]workload.Workload, error) {
	chosen := slices.DeleteFunc(slices.Clone(all), func(w workload.Workload) bool {
		named := len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return strings.EqualFold(id, w.ID) })
		return !named || w.Postgres && !onPostgres
	})
	for _, id := range ids {
		is := func(w workload.Workload) bool { return strings.EqualFold(id, w.ID) }
		switch {
		case !slices.ContainsFunc(all, is):
			return nil, cmdline.Usagef(cmd, "--workload: there is no workload %q; 'dibs bench --list' lists them", id)
		case !slices.ContainsFunc(chosen, is):
			return nil, cmdline.Usagef(cmd, "--workload: %s is for PostgreSQL only; name a database there with --db", id)
		}
	}
	return chosen, nil
}

// enoughConns fails if the server has too few free connections for a workload.
func enoughConns(ctx context.Context, b *workload.Bench, list []workload.Workload) error {
	free, err := b.Server.Free(ctx)
	if err != nil {
		return err
	}
	for _, w := range list {
		if w.Conns > free {
			return &cmdline.HintError{
				Err:  fmt.Errorf("%s needs about %d connections, and the PostgreSQL server has %d free (see its max_connections)", w.ID, w.Conns, free),
				Next: "give a smaller --pool, or leave " + w.ID + " out with --workload",
			}
		}
	}
	return nil
}

// listWorkloads lists the workloads.
func (a *app) listWorkloads(o *benchOptions) error {
	list := workload.All(&workload.Bench{Scale: o.scale, Pool: o.pool})
	if a.JSON {
		for _, w := range list {
			if err := a.WriteJSON(benchEntry{w.ID, w.Name, w.Postgres, wire.Seconds(w.Takes.Round(time.Second))}); err != nil {
				return err
			}
		}
		return nil
	}
	t := a.TableOf("ID", "WORKLOAD", "#ABOUT", "")
	for _, w := range list {
		note := ""
		if w.Postgres {
			note = "PostgreSQL only"
		}
		t.AppendRow([]any{w.ID, w.Name, words.Roughly(w.Takes), note})
	}
	t.Render()
	return nil
}
