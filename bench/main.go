// Command bench measures dibs beside River, graphile-worker and pg-boss, and beside a bare
// table on the same server, in one run: with the same payload, pool and durability, in alternating
// rounds. It creates databases of its own and drops them.
//
//	go run . [--db URL] [--only W3,W5] [--rounds 3] [--scale 0.1] [--json]
//	go run . table RESULTS.json…
//	go run . plot RESULTS.json DIRECTORY
//	go run . compare OLD.json NEW.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/dibs-queue/dibs/internal/lab/pgserver"
	"github.com/dibs-queue/dibs/internal/lab/workload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	if os.Getenv(workload.OrderEnv) != "" {
		signal.Ignore(os.Interrupt) // the parent ends it
		return workload.Serve(context.WithoutCancel(ctx), os.Stdin, os.Stdout, slices.Concat([]workload.Product{workload.Dibs, riverProduct}, nodeProduct(graphileName), nodeProduct(pgBossName))...)
	}
	switch {
	case len(args) > 1 && args[0] == "table":
		return table(os.Stdout, args[1:])
	case len(args) == 3 && args[0] == "plot":
		return plot(args[1], args[2])
	case len(args) == 3 && args[0] == "compare":
		return compare(os.Stdout, args[1], args[2])
	}
	return run(ctx, args, os.Stdout, os.Stderr)
}

const usage = `usage:
  bench [flags]                 measure; flags below
  bench table FILE...           print the table of runs saved by --json
  bench plot FILE DIRECTORY     draw W5 and W6 of a run: w5.svg, w5-free.svg, w6.svg
  bench compare OLD NEW         print how dibs' figures changed between two runs
`

// run measures, and writes the results to out and its progress to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	b := &bench{progress: progress}
	b.Command, b.Launch = process, (*exec.Cmd).Start
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	db := flags.String("db", "", "`URL` of a PostgreSQL server whose user may create databases; default: start one for the run")
	bin := flags.String("pg-bin", os.Getenv("DIBS_PG_BIN"), "`directory` of initdb and postgres, to start the server")
	flags.StringVar(&b.dir, "dir", os.TempDir(), "`directory` for the server's and SQLite's files; put it on the disk to measure")
	only := flags.String("only", "", "`workloads` to run, such as W3,W5; default: all")
	flags.IntVar(&b.rounds, "rounds", 3, "how often to measure each workload; the median counts")
	flags.Float64Var(&b.Scale, "scale", 1, "multiplies the number of jobs and the time of every workload")
	flags.IntVar(&b.Pool, "pool", 16, "connections of each pool")
	flags.IntVar(&b.Handlers, "handlers", 2000, "handlers that a worker runs at once")
	flags.StringVar(&b.profilePath, "cpuprofile", "", "write a profile of each measured part of dibs in this process to `file`.1, file.2 and so on; pprof adds them up")
	flags.BoolVar(&b.waits, "waits", false, "print what the server's processes did for dibs, sampled every 10 ms")
	asJSON := flags.Bool("json", false, "print the results as JSON")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown arguments %q\n%s", flags.Args(), usage)
	case b.rounds < 1 || b.Scale <= 0 || b.Pool < 4:
		return errors.New("--rounds must be at least 1, --scale more than 0, --pool at least 4")
	}
	list, err := choose(b.comparisons(), *only)
	if err != nil {
		return err
	}
	if nodeProduct(pgBossName) == nil {
		fmt.Fprintf(progress, "%s and %s are left out: make bench installs them in bench/%s if there are node and npm\n", graphileName, pgBossName, nodeDir)
	}
	if b.Dir, err = os.MkdirTemp("", "dibs-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.Dir)
	r := &results{Machine: workload.Machine(b.dir), Settings: b.settings()}
	if slices.ContainsFunc(list, func(c comparison) bool { return !c.sqlite }) {
		if *db == "" {
			server, err := launch(ctx, *bin, b.dir)
			if err != nil {
				return err
			}
			defer server.Close()
			*db = server.URL()
		}
		if err := b.connect(ctx, *db); err != nil {
			return err
		}
		defer b.Server.Close()
		if r.Server, err = b.Server.Settings(ctx); err != nil {
			return err
		}
	}
	err = b.measure(ctx, list, r)
	switch { // also prints the results from before a failure or an interrupt
	case len(r.Workloads) == 0:
		return err
	case *asJSON:
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return errors.Join(err, e.Encode(r))
	}
	return errors.Join(err, r.write(out))
}

// choose keeps the workloads whose ids are named.
func choose(all []comparison, only string) ([]comparison, error) {
	if only == "" {
		return all, nil
	}
	var chosen []comparison
	for id := range strings.SplitSeq(only, ",") {
		before := len(chosen)
		for _, w := range all {
			if strings.EqualFold(w.ID, id) {
				chosen = append(chosen, w)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no workload %q; there are W1 to W13, adopt and idle", id)
		}
	}
	return chosen, nil
}

// launch starts a server with Debian's default settings and its files in dir.
func launch(ctx context.Context, bin, dir string) (*pgserver.Server, error) {
	server, err := pgserver.Launch(bin, dir)
	if err != nil {
		return nil, err
	}
	if err = setDefaults(ctx, server.URL()); err == nil {
		if err = server.Stop(pgserver.Fast); err == nil {
			err = server.Start()
		}
	}
	if err != nil {
		server.Close()
		return nil, err
	}
	return server, nil
}

// settings lists the settings of the run itself.
func (b *bench) settings() []workload.Fact {
	list := []workload.Fact{
		{Name: "rounds", Value: fmt.Sprint(b.rounds)},
		{Name: "scale", Value: fmt.Sprint(b.Scale)},
		{Name: "pool", Value: fmt.Sprintf("%d connections; River's and pg-boss' have %d more, which dibs has beside its own; graphile-worker's has 25", b.Pool, extraConns)},
		{Name: "handlers", Value: fmt.Sprint(b.Handlers)},
		{Name: "payload", Value: fmt.Sprintf("%d bytes, unless the workload names a size", workload.LetterBytes)},
	}
	list = append(list, nodeVersions()...)
	info, _ := debug.ReadBuildInfo() // nil in a test
	if info == nil {
		return list
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/riverqueue/river", "github.com/jackc/pgx/v5", "modernc.org/sqlite":
			list = append(list, workload.Fact{Name: m.Path, Value: m.Version})
		}
	}
	return list
}
