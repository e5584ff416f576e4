package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/screens"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

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
				return cmdline.Usagef(cmd, "the demo makes a schema or prefix of its own; leave out --schema and --prefix")
			case jobs < 500 || jobs > 100_000:
				return cmdline.Usagef(cmd, "--jobs must be 500 to 100000, got %d", jobs)
			}
			return a.demo(cmd.Context(), jobs, keep)
		},
	}
	cmd.Flags().IntVar(&jobs, "jobs", 5000, "how many jobs to enqueue")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the jobs and the workers' notes, to look at them")
	a.ownTables(cmd)
	return cmd
}

// demoTime is how long a demo may take: jobs that have not ended by then are left behind.
const demoTime = 2 * time.Minute

// demo runs the demo, which is a short torture, in a place of its own.
func (a *app) demo(ctx context.Context, jobs int, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "dibs-demo-")
	if err != nil {
		return err
	}
	place, err := newPlace(ctx, "demo", a.DBFlag, dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	broken := false
	defer func() {
		if keep || broken {
			fmt.Fprintf(a.Stderr, "kept: the workers' notes in %s, and the jobs: dibs %s ls --all\n", dir, place.flags())
			err = errors.Join(err, place.db.Close())
			return
		}
		_, removed := place.remove(context.WithoutCancel(ctx))
		err = errors.Join(err, removed, os.RemoveAll(dir))
	}()
	shown := a.newScreen("dibs demo", fmt.Sprintf("%s · %d worker processes · %s", words.Plural(jobs, "job"), torture.DemoWorkers, place.text), 0)
	result, err := a.runTorture(ctx, shown, place, "", torture.Config{
		About: torture.About{Dibs: readVersion().Version, Command: "dibs demo", Workers: torture.DemoWorkers, Duration: demoTime, Jobs: jobs},
		DB:    place.db, Dir: dir,
	})
	if err != nil {
		return err
	}
	broken = !result.Kept()
	return a.writeDemoVerdict(shown, result, os.Args[0])
}

// writeDemoVerdict prints the verdict, and returns an error if a promise was broken.
func (a *app) writeDemoVerdict(shown *screens.Screen, r *torture.Result, program string) error {
	r.Dir = "" // it is said on stderr if it is kept
	if a.JSON {
		if err := a.WriteJSON(demoVerdictOf(r)); err != nil {
			return err
		}
	} else {
		fmt.Fprint(a.Stdout, shown.Verdict(r, ""))
		if r.Kept() {
			fmt.Fprint(a.Stdout, shown.Next(program))
		}
	}
	if !r.Kept() {
		return &cmdline.HintError{
			Err:  &cmdline.CodeError{Code: cmdline.ExitFailure, Err: fmt.Errorf("a promise was broken")},
			Next: "the workers' notes and the jobs were kept; please report this with them",
		}
	}
	return nil
}
