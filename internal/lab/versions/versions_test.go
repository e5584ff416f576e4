// Package versions tests that programs of two versions work on one table. The old
// program is this test binary. The new one is the same source with one more
// migration for each database, built into it by an overlay.
package versions_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/open"
)

const (
	partEnv = "DIBS_TEST_PART" // what a child process does; see TestMain
	urlEnv  = "DIBS_TEST_URL"
)

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	var err error
	switch os.Getenv(partEnv) {
	case "migrate":
		err = open.Migrate(ctx, open.URL(os.Getenv(urlEnv)), open.Options{})
	case "work":
		err = work(ctx, os.Getenv(urlEnv))
	default:
		os.Exit(m.Run())
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// work runs a worker until SIGTERM. It prints the id of each job that it completed,
// once that is written; 0 when it has started.
func work(ctx context.Context, url string) error {
	db, err := open.Database(ctx, open.URL(url), open.Options{})
	if err != nil {
		return err
	}
	w := &dibs.Worker{Store: db, Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	w.Hooks.Finished = func(a dibs.Attempt) {
		switch {
		case a.NotWritten != nil:
			fmt.Fprintln(os.Stderr, a.NotWritten)
		case a.Outcome.Ending == dibs.EndCompleted: // the shutdown has not released it
			fmt.Println(a.Job.ID)
		}
	}
	w.HandleRaw("", func(context.Context, *dibs.RawJob) error {
		time.Sleep(2 * time.Millisecond) // stands for the job's work
		return nil
	})
	fmt.Println(0)
	return errors.Join(w.Run(ctx), db.Close())
}

// The migrations that only the new program has. Each changes tables that all programs use.
// It says that programs without it may go on.
const (
	newPostgres = `-- Compatible with programs that know version 1.
alter table dibs.job add column note text;
alter table dibs.finished add column note text not null default 'none';
create index job_by_kind on dibs.job (queue, kind) where gate = 0;
create table dibs.extra (id bigint primary key);
`
	newSQLite = `-- Compatible with programs that know version 1.
alter table dibs_job add column note text;
alter table dibs_finished add column note text not null default 'none';
create index dibs_job_by_kind on dibs_job (queue, kind) where gate = 0;
create table dibs_extra (id integer primary key) strict;
`
)

// buildNew builds the new program and returns its path.
func buildNew(t *testing.T) string {
	dir := t.TempDir()
	root, err := filepath.Abs("../../..")
	must(t, err)
	replace := make(map[string]string)
	for name, text := range map[string]string{"postgres": newPostgres, "sqlite": newSQLite} {
		file := filepath.Join(dir, name+".sql")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		all, err := filepath.Glob(filepath.Join(root, name, "migrations", "*.sql"))
		must(t, err)
		replace[filepath.Join(root, name, "migrations", fmt.Sprintf("%04d_new.sql", len(all)+1))] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	file, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "new.test")
	must(t, os.WriteFile(file, overlay, 0o600))
	if out, err := exec.Command("go", "test", "-c", "-overlay", file, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func TestOldAndNewProgramsShareATable(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds a program: not with -short")
	}
	updated := buildNew(t)
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		url := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
		must(t, open.Migrate(t.Context(), open.URL(url), open.Options{}))
		share(t, url, url, updated, func() *reader { return nil })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		owner := pgtest.URL(t)
		must(t, open.Migrate(t.Context(), open.URL(owner), open.Options{}))
		share(t, owner, pgtest.Role(t, owner, pgtest.Grants...), updated, func() *reader { return read(t, owner) })
	})
}

// share rolls a new version out, one process after the other, while jobs come in
// and are worked on. Every job is completed exactly once. Only the owner may change
// the schema.
func share(t *testing.T, owner, url, updated string, read func() *reader) {
	old, err := os.Executable()
	must(t, err)
	runs := newFleet(t, url)
	db, err := open.Database(t.Context(), open.URL(url), open.Options{})
	must(t, err)
	defer db.Close()

	first, second := runs.start(old), runs.start(old)
	runs.enqueue(db, 1000)
	runs.await(100)
	// An open transaction blocks the migration, but not the workers.
	reader := read()
	migrated := runs.command(updated, "migrate", owner)
	must(t, migrated.Start())
	reader.met()
	runs.enqueue(db, 500)
	runs.await(1200)
	reader.end()
	must(t, migrated.Wait())

	third := runs.start(updated)
	runs.enqueue(db, 1000)
	runs.stop(first)
	restarted := runs.start(old) // as an orchestrator does that knows of no migration
	fourth := runs.start(updated)
	must(t, runs.command(old, "migrate", url).Run())
	runs.stop(second)
	runs.await(1500)
	reopened, err := open.Database(t.Context(), open.URL(url), open.Options{})
	must(t, err)
	defer reopened.Close()
	runs.enqueue(reopened, 1000)
	runs.await(3500)
	for _, p := range []*process{restarted, third, fourth} {
		runs.stop(p)
		if p.completed == 0 {
			t.Error("a worker beside those of another version has completed nothing")
		}
	}
	runs.judge(reopened)
}

// process is a worker process.
type process struct {
	cmd       *exec.Cmd
	started   chan struct{}
	ended     chan error
	completed int // how many jobs it has completed; read once the process has ended
}

// fleet is the worker processes on one database, and what they completed.
type fleet struct {
	*testing.T
	url       string
	enqueued  []int64
	completed chan int64
	times     map[int64]int // how often each job was completed
}

func newFleet(t *testing.T, url string) *fleet {
	return &fleet{T: t, url: url, completed: make(chan int64, 10_000), times: make(map[int64]int)}
}

func (f *fleet) command(program, part, url string) *exec.Cmd {
	cmd := exec.CommandContext(f.Context(), program)
	cmd.Env = append(os.Environ(), partEnv+"="+part, urlEnv+"="+url)
	cmd.Stderr = os.Stderr
	return cmd
}

// start starts a worker and waits until it has opened the database.
func (f *fleet) start(program string) *process {
	f.Helper()
	p := &process{cmd: f.command(program, "work", f.url), started: make(chan struct{}), ended: make(chan error, 1)}
	out, err := p.cmd.StdoutPipe()
	must(f.T, err)
	must(f.T, p.cmd.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var id int64
			if _, err := fmt.Sscan(lines.Text(), &id); err != nil {
				continue // the test binary's own words
			}
			if id == 0 {
				close(p.started)
				continue
			}
			p.completed++
			f.completed <- id
		}
		p.ended <- p.cmd.Wait()
	}()
	select {
	case <-p.started:
	case err := <-p.ended:
		f.Fatalf("a worker did not start: %v", err)
	}
	return p
}

func (f *fleet) stop(p *process) {
	f.Helper()
	must(f.T, p.cmd.Process.Signal(syscall.SIGTERM))
	if err := <-p.ended; err != nil {
		f.Errorf("a worker ended with %v", err)
	}
}

func (f *fleet) enqueue(db admin.Database, n int) {
	f.Helper()
	for range n / 10 {
		jobs := slices.Repeat([]dibs.NewJob{{Kind: "k"}}, 10)
		jobs[0].Group = "g"
		done, err := db.Enqueue(f.Context(), jobs)
		must(f.T, err)
		for _, e := range done {
			f.enqueued = append(f.enqueued, e.ID)
		}
	}
}

// await waits until n jobs have been completed.
func (f *fleet) await(n int) {
	f.Helper()
	timeout := time.After(2 * time.Minute)
	for len(f.times) < n {
		select {
		case id := <-f.completed:
			f.times[id]++
		case <-timeout:
			f.Fatalf("%d of %d jobs were completed", len(f.times), n)
		}
	}
}

// judge expects that every job was completed exactly once, and the database is right.
func (f *fleet) judge(db admin.Database) {
	close(f.completed) // all have ended
	for id := range f.completed {
		f.times[id]++
	}
	for _, id := range f.enqueued {
		j, err := db.Get(f.Context(), id)
		must(f.T, err)
		if f.times[id] != 1 || j.State != dibs.Completed || j.Attempt-j.Excused != 1 {
			f.Errorf("job %d was completed %d times, is %s after %d attempts", id, f.times[id], j.State, j.Attempt-j.Excused)
		}
	}
	if len(f.times) != len(f.enqueued) {
		f.Errorf("%d jobs were completed, %d were enqueued", len(f.times), len(f.enqueued))
	}
	found, err := db.Check(f.Context())
	must(f.T, err)
	for _, line := range found {
		f.Errorf("consistency check: %s", line)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
