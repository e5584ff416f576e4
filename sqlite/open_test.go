package sqlite_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

func TestOpenSaysWhatIsWrongWithThePath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notDatabase := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(notDatabase, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"no path", "", "is empty"},
		{"a directory", dir, "is a directory"},
		{"a missing directory", filepath.Join(dir, "no", "jobs.db"), "does not exist; make it first"},
		{"memory", ":memory:", "must be the path of a file"},
		{"a URI", "file:jobs.db", "must be the path of a file"},
		{"a NUL byte", "a\x00b", "NUL byte"},
		{"a long name", filepath.Join(dir, strings.Repeat("x", 10_000)), "cannot be used"},
		{"another file", notDatabase, "not a SQLite file"},
		{"below a file", filepath.Join(notDatabase, "jobs.db"), "cannot be used"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && (c.name == "a long name" || c.name == "below a file") {
				t.Skip("Windows calls it a path that is not there")
			}
			_, err := sqlite.Open(t.Context(), c.path, sqlite.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestAnyFileNameWorks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b.db", "q?mark=1.db", "100%41.db", "hash#1.db", "ünï.db", "a&b=c.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := openAt(t, path, sqlite.Options{})
		if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestARelativePathWorks(t *testing.T) {
	t.Chdir(t.TempDir())
	s := openAt(t, "jobs.db", sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("jobs.db"); err != nil {
		t.Error(err)
	}
}

func TestANewerSchemaIsUsedOnlyIfItSaysSo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	for _, statement := range []string{
		"insert into dibs_migration (version, compatible_with, applied_at) values (98, 1, 0)",
		"insert into dibs_migration (version, compatible_with, applied_at) values (99, 98, 0)",
	} {
		if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
			t.Fatal(err)
		}
		openAt(t, path, sqlite.Options{})
		if _, err := s.DB().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if !errors.Is(err, dibs.ErrSchema) || !strings.Contains(err.Error(), "use a newer program") {
		t.Errorf("got %v", err)
	}
}

func TestTwoPrefixesAreTwoQueues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	a := openAt(t, path, sqlite.Options{})
	if err := sqlite.Migrate(t.Context(), path, sqlite.Options{Prefix: "other_"}); err != nil {
		t.Fatal(err)
	}
	b := openAt(t, path, sqlite.Options{Prefix: "other_"})
	if _, err := a.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	jobs, err := b.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
	if err != nil || len(jobs) != 0 {
		t.Errorf("%v, %v", jobs, err)
	}
	var n int
	err = b.DB().QueryRowContext(t.Context(), "select count(*) from sqlite_schema where name not like 'dibs!_%' escape '!' and name not like 'other!_%' escape '!' and name not like 'sqlite!_%' escape '!'").Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("%d things do not carry the prefix: %v", n, err)
	}
	for _, bad := range []string{"a-b", "1a", "sqlite_", "x;", strings.Repeat("x", 40)} {
		if text, err := sqlite.Migrations(sqlite.Options{Prefix: bad}, 0); text != "" || !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("Migrations for prefix %q: %v", bad, err)
		}
		if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Prefix: bad}); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("prefix %q: %v", bad, err)
		}
	}
}

func TestTimeNeverRunsBackwards(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	later := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := s.DB().ExecContext(t.Context(), "update dibs_clock set now = unixepoch('2999-01-01') * 1000000"); err != nil {
		t.Fatal(err)
	}
	done, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Get(t.Context(), done[0].ID)
	if err != nil || j.CreatedAt.Before(later) || j.CreatedAt.After(later.Add(time.Hour)) { // the file's time goes on
		t.Errorf("created at %v, want %v or soon after: %v", j.CreatedAt, later, err)
	}
}

// After the system's clock was an hour ahead for a moment, leases still end: the file's time
// goes on at half speed instead of standing still for an hour.
func TestAClockThatWasPutBackIsNoLimbo(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Enqueue(ctx, []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(ctx, "update dibs_clock set now = now + 3600000000"); err != nil {
		t.Fatal(err)
	}
	request := dibs.ClaimRequest{Worker: "w", N: 1, Lease: dibs.MinLease}
	jobs, err := s.Claim(ctx, request)
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	first := jobs[0]
	for jobs = nil; len(jobs) == 0; {
		if _, err := s.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if jobs, err = s.Claim(ctx, request); err != nil {
			t.Fatal(err)
		}
	}
	if again := jobs[0].ClaimedAt.Sub(first.ClaimedAt); again < dibs.MinLease || again > time.Minute {
		t.Errorf("claimed again after %v of the file's time", again)
	}
	if err := s.Finish(ctx, []dibs.Outcome{first.Lease().Complete(nil)}); !errors.Is(err, dibs.ErrLeaseLost) {
		t.Errorf("the outcome of the ended lease: %v", err)
	}
}

// Existing refuses a file that is not there, or has no tables yet, and makes neither.
func TestExistingMakesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Existing: true}); !errors.Is(err, sqlite.ErrNoTables) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Existing: true}); !errors.Is(err, sqlite.ErrNoTables) || !errors.Is(err, dibs.ErrSchema) {
		t.Errorf("an empty file: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 0 {
		t.Errorf("something was written: %v, %v", info, err)
	}
	openAt(t, path, sqlite.Options{})
	openAt(t, path, sqlite.Options{Existing: true})
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	for field, o := range map[string]sqlite.Options{
		"prefix":       {Prefix: "SQLITE_"},
		"busy_timeout": {BusyTimeout: -1},
		"file_mode":    {FileMode: 0o444},
	} {
		for name, call := range map[string]func() error{
			"Open":    func() error { _, err := sqlite.Open(context.Background(), path, o); return err },
			"Migrate": func() error { return sqlite.Migrate(context.Background(), path, o) },
		} {
			var invalid *dibs.InvalidError
			if err := call(); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("%s with a bad %s: %v", name, field, err)
			}
		}
	}
	var noContext context.Context
	if _, err := sqlite.Open(noContext, path, sqlite.Options{}); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("Open without a context: %v", err)
	}
	if err := sqlite.Migrate(noContext, path, sqlite.Options{}); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("Migrate without a context: %v", err)
	}
	for _, version := range []int{-1, 1000} {
		if _, err := sqlite.Migrations(sqlite.Options{}, version); !errors.Is(err, dibs.ErrInvalid) {
			t.Errorf("Migrations since version %d: %v", version, err)
		}
	}
	if _, err := sqlite.Migrations(sqlite.Options{Prefix: "1"}, 0); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("Migrations with a bad prefix: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made")
	}
}
