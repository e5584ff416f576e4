package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"github.com/dibs-queue/dibs/internal/lab/demo"
	"github.com/spf13/cobra"
)

const demoWorkers = 4

func newDemoCmd(a *app) *cobra.Command {
	var jobs int
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch it work: 5,000 jobs, four worker processes, one of them killed",
		Long: `Watch it work, and see its promises checked.

The demo enqueues 5,000 jobs over three priorities: some belong to groups of which one
or two may run at once, some fail once or twice, some always fail, some may only start
seconds later. Four worker processes run them. On the way one of them is killed with
SIGKILL while it holds jobs, and another is started. Every worker writes down what it asks
the database and is told; at the end the demo judges from those notes and from the
database whether every promise was kept, and exits with 1 if not. Leases are 3 s long
here, so that it does not take long until the killed worker's jobs run elsewhere.

It uses a SQLite file of its own in a temporary folder, which it removes. With --db it
uses that database, with tables of its own (a schema on PostgreSQL, a prefix on SQLite)
that it removes too; nothing else there is touched.`,
		Example: `  dibs demo
  dibs demo --db postgres://localhost/mydb`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("schema") || cmd.Flags().Changed("prefix"):
				return usagef(cmd, "the demo makes a schema or prefix of its own; leave out --schema and --prefix")
			case jobs < 500 || jobs > 100_000:
				return usagef(cmd, "--jobs must be 500 to 100000, got %d", jobs)
			}
			return a.demo(cmd.Context(), jobs, keep)
		},
	}
	cmd.Flags().IntVar(&jobs, "jobs", 5000, "how many jobs to enqueue")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the jobs and the workers' notes, to look at them")
	a.ownTables(cmd)
	cmd.AddCommand(newDemoWorkerCmd(a))
	return cmd
}

// newDemoWorkerCmd is the command of the demo's worker processes. It ends with its
// stdin, which the demo keeps open until its own end.
func newDemoWorkerCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "worker NAME FOLDER",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := a.untilStdinEnds(cmd.Context())
			defer stop()
			db, err := a.openExisting(ctx)
			if err != nil {
				return err
			}
			return errors.Join(demo.Work(ctx, db, args[0], args[1]), db.Close())
		},
	}
}

// untilStdinEnds returns a context that only the end of stdin ends. A Ctrl-C reaches the
// whole process group, but the parent decides when its processes end.
func (a *app) untilStdinEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Ignore(os.Interrupt)
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		_, _ = io.Copy(io.Discard, a.stdin) // stop at the end of stdin, even if it is an error
		stop()
	}()
	return ctx, stop
}

// demo runs the demonstration in a place of its own.
func (a *app) demo(ctx context.Context, jobs int, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "dibs-demo-")
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	place, err := newPlace(ctx, "demo", a.dbFlag, dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	broken := false
	defer func() {
		if keep || broken {
			fmt.Fprintf(a.stderr, "kept: the workers' notes in %s, and the jobs: dibs %s ls --all\n", dir, place.flags())
			err = errors.Join(err, place.db.Close())
			return
		}
		_, removed := place.remove(context.WithoutCancel(ctx))
		err = errors.Join(err, removed, os.RemoveAll(dir))
	}()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	screen := a.newDemoScreen(jobs, place, cancel)
	result, err := demo.Run(ctx, demo.Config{
		DB: place.db, Jobs: jobs, Workers: demoWorkers, Dir: dir,
		Watch: screen.watch,
		Command: func(name string) *exec.Cmd {
			cmd := exec.Command(program, "demo", "worker", name, dir)
			cmd.Env = append(os.Environ(), place.env(place.url)...)
			return cmd
		},
	})
	switch screenErr := screen.close(); {
	case screenErr != nil:
		return screenErr
	case ctx.Err() != nil:
		return &codeError{exitInterrupted, ctx.Err()}
	case err != nil:
		return err
	}
	broken = !result.Kept()
	return a.writeDemoVerdict(result, os.Args[0])
}
