// Command bench measures dibs beside River, and beside what the same server does
// with a bare table, in one run: the same payload, pool and durability, in rounds
// that alternate. It makes databases of its own and drops them.
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

	"github.com/dibs-queue/dibs/internal/pgserver"
	"github.com/dibs-queue/dibs/internal/workload"
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
		signal.Ignore(os.Interrupt) // who started it says when it ends
		return workload.Serve(context.WithoutCancel(ctx), os.Stdin, os.Stdout, workload.Dibs, asRiver)
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
  bench [flags]                 measures; flags below
  bench table FILE...           prints the table of runs kept by --json
  bench plot FILE DIRECTORY     draws their W5 and W6: w5.svg, w6.svg
  bench compare OLD NEW         what changed for dibs between two of them
`

// run measures, and writes the results to out and how it goes to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	b := &bench{progress: progress}
	b.Command, b.Launch = process, (*exec.Cmd).Start
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	db := flags.String("db", "", "`URL` of a PostgreSQL server whose user may create databases; default: one is started for the run")
	bin := flags.String("pg-bin", os.Getenv("DIBS_PG_BIN"), "`directory` of initdb and postgres for the server that is started")
	flags.StringVar(&b.dir, "dir", os.TempDir(), "`directory` for the server's and SQLite's files; put it on the disk to measure")
	only := flags.String("only", "", "`workloads` to run, such as W3,W5; default: all")
	flags.IntVar(&b.rounds, "rounds", 3, "how often each is measured; the median counts")
	flags.Float64Var(&b.Scale, "scale", 1, "multiplies the number of jobs and the time of every workload")
	flags.IntVar(&b.Pool, "pool", 16, "connections of each pool")
	flags.IntVar(&b.Handlers, "handlers", 2000, "handlers that a worker runs at once")
	flags.StringVar(&b.profile, "cpuprofile", "", "write a profile of each measured part of dibs in this process to `file`.1, file.2 and so on; pprof adds them up")
	flags.BoolVar(&b.waits, "waits", false, "tell what the server's processes were doing for dibs, looked at every 10 ms")
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
		return fmt.Errorf("cannot make sense of %q\n%s", flags.Args(), usage)
	case b.rounds < 1 || b.Scale <= 0 || b.Pool < 4:
		return errors.New("--rounds must be at least 1, --scale more than 0, --pool at least 4")
	}
	list, err := choose(b.comparisons(), *only)
	if err != nil {
		return err
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
	switch { // what was measured before it failed, or was interrupted, too
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
			return nil, fmt.Errorf("there is no workload %q; there are W1 to W10, adopt and idle", id)
		}
	}
	return chosen, nil
}

// launch starts a server with the settings that Debian's initdb gives it, files on disk.
func launch(ctx context.Context, bin, dir string) (*pgserver.Server, error) {
	server, err := pgserver.Launch(bin, dir)
	if err != nil {
		return nil, err
	}
	if err = asDebian(ctx, server.URL()); err == nil {
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

// settings are those of the run itself.
func (b *bench) settings() []workload.Fact {
	list := []workload.Fact{
		{Name: "rounds", Value: fmt.Sprint(b.rounds)},
		{Name: "scale", Value: fmt.Sprint(b.Scale)},
		{Name: "pool", Value: fmt.Sprintf("%d connections; River's has %d more, which dibs has beside its own", b.Pool, besides)},
		{Name: "handlers", Value: fmt.Sprint(b.Handlers)},
		{Name: "payload", Value: fmt.Sprintf("%d bytes", workload.LetterBytes)},
	}
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
