package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/runner"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/torture"
	"github.com/dibs-queue/dibs/internal/lab"
	"github.com/dibs-queue/dibs/internal/lab/pgserver"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
)

// tortureOptions holds the flags of dibs torture.
type tortureOptions struct {
	duration time.Duration
	workers  int
	seed     uint64
	report   string
	history  string
	bin      string
	judge    string
}

const tortureHelp = `Break everything around the queue on your own server, and see its promises checked.

Worker and producer processes run jobs of many kinds, by the library, by programs that
stay and, through each other, over HTTP. Meanwhile they are killed, stopped for longer
than their leases and continued, and cut off from the answers of the database; limits
change, queues are paused, jobs are cancelled, edited and requeued, transactions are
rolled back, and one holds a snapshot open. Every process writes down what it asked and
what it was told. In the end those records and what is in the database are judged by the
promises of docs/guarantees.md. The exit code is 8 if one was broken, and what shows it is
printed; the records and the jobs are kept then, and --judge judges the records again,
without the database. Wrong flags and files that cannot be written are found before it
starts: exit code 2.

It uses a SQLite file of its own in a temporary folder, which it removes. With --db it
uses that database, with tables of its own (a schema on PostgreSQL, a prefix on SQLite)
that it removes too; nothing else there is touched, but the server is kept busy: so it
asks for --db, and does not use $DIBS_DB. With --pg-bin it starts a PostgreSQL server of
its own, and kills that every few seconds too. Connections are cut on PostgreSQL only;
processes are stopped on Unix only.

When the faults are over, it waits as long as jobs still end, and gives up after a
minute in which none did. Ctrl-C ends the faults early, and what they did is judged all
the same; a second one gives up. The exit code is then 130, or 8.

If dibs torture is itself killed with SIGKILL, it cannot clean up. It then leaves behind
  on PostgreSQL  the schema that its first line names: drop schema dibs_torture_… cascade
  on SQLite      the tables dibs_torture_…_*, with --db: drop each of them
  with --pg-bin  the server, and its folder dibs-postgres-… in /dev/shm or the temporary one
  always         the folder dibs-torture-… in the temporary one, unless --history is given

--seed repeats the faults and the loads, but not how the processes interleave: that
differs in each run.

With --table it tortures a copy of an adopted table, made of up to 200 of its rows, in a schema
or a file of its own; the table itself is only read, in --db or $DIBS_DB. Meanwhile another
program inserts rows, writes to them, and ends some by itself. A trigger of the copy counts how
often each row ends. Foreign keys and triggers of the table are not copied; claims inside of
transactions are not tried; the records cannot be judged again by --judge.`

func newTortureCmd(a *app) *cobra.Command {
	var o tortureOptions
	cmd := &cobra.Command{
		Use:   "torture",
		Short: "Break everything around the queue on your own server, and see its promises checked",
		Long:  tortureHelp,
		Example: `  dibs torture
  dibs torture --db postgres://localhost/mydb --duration 10m --report torture.html
  dibs torture --pg-bin /usr/lib/postgresql/17/bin --history records
  dibs torture --judge records --report torture.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkTorture(cmd, &o); err != nil {
				return err
			}
			switch {
			case o.judge != "":
				return a.judgeTorture(cmd, o)
			case a.Table != "":
				return a.tortureTable(cmd.Context(), o)
			}
			return a.torture(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	o.duration = 2 * time.Minute
	f.Var((*cmdline.DurationFlag)(&o.duration), "duration", "how long the faults go on, 5s to 24h")
	f.IntVar(&o.workers, "workers", 8, "how many worker processes, 1 to 64")
	f.Uint64Var(&o.seed, "seed", 0, "`SEED` of the faults and the loads; default: random")
	f.StringVar(&o.report, "report", "", "write a page on what happened to `FILE`, for a browser")
	f.StringVar(&o.history, "history", "", "keep the processes' records in `DIR`, which must be empty or not exist")
	f.StringVar(&o.judge, "judge", "", "run nothing: judge again the records that are kept in `DIR`")
	f.StringVar(&o.bin, "pg-bin", "", "`DIR` of initdb and postgres: start a server of its own, and kill it too")
	f.StringVar(&a.Table, "table", "", "torture a copy of the adopted table that the mapping in `FILE` is about")
	a.ownTables(cmd)
	cmd.AddCommand(newTortureProcessCmd(a), newTortureLinesCmd(a))
	return cmd
}

func (a *app) checkTorture(cmd *cobra.Command, o *tortureOptions) error {
	changed := cmd.Flags().Changed
	for _, name := range []string{"db", "report", "history", "judge", "pg-bin", "table"} {
		// Perhaps from an unset variable: to ignore the flag would judge another database.
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return cmdline.Usagef(cmd, "--%s is empty; give it a value or leave it out", name)
		}
	}
	if o.judge != "" {
		for _, other := range []string{"db", "duration", "workers", "seed", "history", "pg-bin", "table"} {
			if changed(other) && (other != "db" || a.DBFlag != "") {
				return cmdline.Usagef(cmd, "--judge looks at records of an earlier run; leave out --%s", other)
			}
		}
		return checkTorturePaths(cmd, o)
	}
	switch {
	case changed("schema") || changed("prefix"):
		return cmdline.Usagef(cmd, "the torture makes a schema or prefix of its own; leave out --schema and --prefix")
	case o.duration < 5*time.Second || o.duration > 24*time.Hour:
		return cmdline.Usagef(cmd, "--duration must be 5s to 24h, got %v", o.duration)
	case o.workers < 1 || o.workers > 64:
		return cmdline.Usagef(cmd, "--workers must be 1 to 64, got %d", o.workers)
	case o.bin != "" && a.Table != "":
		return cmdline.Usagef(cmd, "--pg-bin starts an empty server; name the one that holds the table with --db")
	case o.bin != "" && a.DBFlag != "":
		return cmdline.Usagef(cmd, "--db names a server and --pg-bin starts another; give one of them")
	}
	if u, err := url.Parse(a.DBFlag.Reveal()); err == nil && u.Query().Get("sslmode") == "verify-full" {
		return cmdline.Usagef(cmd, "the torture's connections pass through proxies on 127.0.0.1, whose name is in no certificate; use sslmode=verify-ca")
	}
	if !changed("seed") {
		o.seed = rand.Uint64N(1_000_000)
	}
	return checkTorturePaths(cmd, o)
}

// checkTorturePaths finds files that cannot be written, and programs that cannot be started,
// before the run.
func checkTorturePaths(cmd *cobra.Command, o *tortureOptions) error {
	if o.report != "" {
		if err := tryToWrite(o.report); err != nil {
			return cmdline.Usagef(cmd, "--report: %w", err)
		}
	}
	if o.bin != "" {
		for _, program := range []string{"initdb", "postgres"} {
			path, err := filepath.Abs(filepath.Join(o.bin, program))
			if err == nil {
				_, err = exec.LookPath(path)
			}
			if err != nil {
				return cmdline.Usagef(cmd, "--pg-bin: %s holds no %s: %w", o.bin, program, err)
			}
		}
	}
	if o.history == "" {
		return nil
	}
	if err := os.MkdirAll(o.history, 0o755); err != nil {
		return cmdline.Usagef(cmd, "--history: %w", err)
	}
	left, err := os.ReadDir(o.history)
	switch {
	case err != nil:
		return cmdline.Usagef(cmd, "--history: %w", err)
	case len(left) > 0:
		return cmdline.Usagef(cmd, "--history: %s is not empty", o.history)
	}
	if err := tryToWrite(filepath.Join(o.history, "try")); err != nil {
		return cmdline.Usagef(cmd, "--history: %w", err)
	}
	return nil
}

// tryToWrite opens a file for writing, and changes nothing.
func tryToWrite(path string) error {
	_, missing := os.Stat(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	err = f.Close()
	if errors.Is(missing, fs.ErrNotExist) {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// newTortureProcessCmd is the command of the processes of a torture or a demo. It ends with its
// stdin, which the torture keeps open until its own end.
func newTortureProcessCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "process PART",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			signal.Ignore(os.Interrupt) // a Ctrl-C reaches the whole process group, but the parent decides when its processes end
			ctx, stop := lab.UntilEnd(context.WithoutCancel(cmd.Context()), a.Stdin)
			defer stop()
			var part torture.Part
			if err := json.Unmarshal([]byte(args[0]), &part); err != nil {
				return err
			}
			a.Table = part.Adopted
			defer a.tortureLines(&part)()
			return part.Play(ctx, a.URL().Reveal(), a.openCopy)
		},
	}
}

// openCopy opens the copy of an adopted table, or else dibs' own tables.
func (a *app) openCopy(ctx context.Context) (admin.Database, error) {
	if a.Table == "" {
		return a.OpenExisting(ctx)
	}
	t, err := a.OpenTable(ctx)
	if err != nil {
		return nil, err
	}
	return torture.OnTable(t), nil
}

// torture runs the whole torture, in a place of its own.
func (a *app) torture(ctx context.Context, o tortureOptions) (err error) {
	dir, remove, err := tortureDir(o.history)
	if err != nil {
		return err
	}
	broken := false
	defer func() {
		if !broken {
			err = errors.Join(err, remove())
		}
	}()
	at, server := a.DBFlag, torture.Server(nil)
	if o.bin != "" {
		own, err := pgserver.Launch(o.bin, "")
		if err != nil {
			return err
		}
		defer own.Close()
		at, server = open.URL(own.URL()), own
	}
	file := newFile(at)
	place, err := newPlace(ctx, "torture", at, dir)
	if err != nil {
		return err
	}
	defer func() {
		if broken && o.bin == "" {
			fmt.Fprintf(a.Stderr, "kept: the jobs: dibs %s ls --all\n", place.flags())
			err = errors.Join(err, place.db.Close())
			return
		}
		err = errors.Join(err, removePlace(context.WithoutCancel(ctx), place, file))
	}()
	shown := a.newTortureScreen(o, place)
	result, err := a.runTorture(ctx, shown, place, o.history, torture.Config{
		About: torture.About{Dibs: readVersion().Version, Command: o.command(a.DBFlag), Workers: o.workers, Seed: o.seed, Duration: o.duration},
		DB:    place.db, Effects: place.table("effects"), Dir: dir, Server: server,
	})
	if err != nil {
		return err
	}
	broken = !result.Kept()
	return a.reportTorture(shown, result, o.report, o.history != "")
}

// tortureDir returns the folder for the records, and a function that removes it.
func tortureDir(keep string) (dir string, remove func() error, err error) {
	if keep != "" {
		return keep, func() error { return nil }, nil
	}
	dir, err = os.MkdirTemp("", "dibs-torture-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// tortureProcesses starts this program as the torture's processes.
type tortureProcesses struct {
	place   *place
	spawner *runner.Spawner
}

func (p tortureProcesses) Start(cmd *exec.Cmd) error { return p.spawner.Start(cmd) }

func (p tortureProcesses) Command(part torture.Part, url string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "torture", "process", string(text))
	cmd.Env = append(os.Environ(), p.place.env(open.URL(url))...)
	return cmd, nil
}
