// Command bench measures dibs beside River, and beside what the same server does
// with a bare table, in one run: the same payload, pool and durability, in rounds
// that alternate. It makes databases of its own and drops them.
//
//	go run . [--db URL] [--only W3,W5] [--rounds 3] [--scale 0.1] [--json]
//	go run . plot RESULTS.json DIRECTORY
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/dibs-queue/dibs/internal/pgserver"
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
	if text := os.Getenv(childEnv); text != "" {
		return serve(context.WithoutCancel(ctx), text)
	}
	if len(args) == 3 && args[0] == "plot" {
		return plot(args[1], args[2])
	}
	return run(ctx, args, os.Stdout, os.Stderr)
}

// run measures, and writes the results to out and how it goes to progress.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	b := &bench{progress: progress}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	db := flags.String("db", "", "`URL` of a PostgreSQL server whose user may create databases; default: one is started for the run")
	bin := flags.String("pg-bin", os.Getenv("DIBS_PG_BIN"), "`directory` of initdb and postgres for the server that is started")
	flags.StringVar(&b.dir, "dir", os.TempDir(), "`directory` for the server's and SQLite's files; put it on the disk to measure")
	only := flags.String("only", "", "`workloads` to run, such as W3,W5; default: all")
	flags.IntVar(&b.rounds, "rounds", 3, "how often each is measured; the median counts")
	flags.Float64Var(&b.scale, "scale", 1, "multiplies the number of jobs and the time of every workload")
	flags.IntVar(&b.pool, "pool", 16, "connections of each pool")
	flags.IntVar(&b.handlers, "handlers", 2000, "handlers that a worker runs at once")
	asJSON := flags.Bool("json", false, "print the results as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.rounds < 1 || b.scale <= 0 || b.pool < 4 || flags.NArg() > 0 {
		return errors.New("--rounds must be at least 1, --scale more than 0, --pool at least 4, and there are no other arguments")
	}
	list, err := choose(workloads(), *only)
	if err != nil {
		return err
	}
	r := &results{Machine: machine(b.dir), Settings: b.settings()}
	if slices.ContainsFunc(list, func(w workload) bool { return !w.sqlite }) {
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
		defer b.admin.Close()
		if r.Server, err = serverSettings(ctx, b.admin); err != nil {
			return err
		}
	}
	if err := b.measure(ctx, list, r); err != nil {
		return err
	}
	if *asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.write(out)
}

// choose keeps the workloads whose ids are named.
func choose(all []workload, only string) ([]workload, error) {
	if only == "" {
		return all, nil
	}
	var chosen []workload
	for id := range strings.SplitSeq(only, ",") {
		before := len(chosen)
		for _, w := range all {
			if strings.EqualFold(w.id, id) {
				chosen = append(chosen, w)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no workload %q", id)
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
