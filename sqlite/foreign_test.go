package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// foreignFile makes another program's file with one table, and returns its path.
func foreignFile(t *testing.T, pragmas ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	run(t, path, append(pragmas, "create table orders (id integer primary key, total integer)", "insert into orders (total) values (7)")...)
	return path
}

// run runs statements on a connection of another program, and closes that.
func run(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// fileState is what other programs can see of a file and its folder.
type fileState struct {
	content []byte
	changed time.Time
	names   []string
}

func look(t *testing.T, path string) (s fileState) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s.changed = info.ModTime()
	if s.content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		s.names = append(s.names, e.Name())
	}
	return s
}

// untouched runs f and expects it to change nothing.
func untouched(t *testing.T, path string, f func()) {
	t.Helper()
	before := look(t, path)
	f()
	after := look(t, path)
	if !bytes.Equal(after.content, before.content) || !after.changed.Equal(before.changed) {
		t.Error("the file was changed")
	}
	if !slices.Equal(after.names, before.names) {
		t.Errorf("the folder has %q, had %q", after.names, before.names)
	}
}

// refuses expects that a file is not opened, and not changed.
func refuses(t *testing.T, path string, o sqlite.Options) {
	t.Helper()
	untouched(t, path, func() {
		_, err := sqlite.Open(t.Context(), path, o)
		if !errors.Is(err, dibs.ErrSchema) || !strings.Contains(err.Error(), "sqlite.Migrate") {
			t.Errorf("got %v", err)
		}
	})
}

// A mistyped path or prefix does not change another program's file.
func TestAnotherProgramsFileIsLeftAlone(t *testing.T) {
	t.Parallel()
	t.Run("as SQLite makes it", func(t *testing.T) {
		t.Parallel()
		refuses(t, foreignFile(t), sqlite.Options{})
	})
	t.Run("in WAL mode", func(t *testing.T) {
		t.Parallel()
		refuses(t, foreignFile(t, "pragma journal_mode = wal"), sqlite.Options{})
	})
	t.Run("left by a program that died", func(t *testing.T) {
		t.Parallel()
		path := foreignFile(t, "pragma journal_mode = wal")
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), "insert into orders (total) values (8)"); err != nil {
			t.Fatal(err)
		}
		left := filepath.Join(t.TempDir(), "left.db")
		for _, end := range []string{"", "-wal", "-shm"} {
			copyTo(t, path+end, left+end)
		}
		before := look(t, left)
		refuses(t, left, sqlite.Options{})
		if after := look(t, left); !bytes.Equal(after.content, before.content) {
			t.Error("the file was changed")
		}
	})
	t.Run("with a view alone", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "view.db")
		run(t, path, "create view one as select 1")
		refuses(t, path, sqlite.Options{})
	})
	t.Run("of dibs under another prefix", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "jobs.db")
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		refuses(t, path, sqlite.Options{Prefix: "mistyped_"})
	})
}

func TestAFileThatAnotherProgramHasBegunIsLeftAlone(t *testing.T) {
	t.Parallel()
	t.Run("left by a program that died, without its -shm", func(t *testing.T) {
		t.Parallel()
		path := abandoned(t, "-wal", "pragma journal_mode = wal")
		if err := os.WriteFile(path+"-shm", nil, 0o600); err != nil { // SQLite makes only this to read the file
			t.Fatal(err)
		}
		refuses(t, path, sqlite.Options{})
	})
	t.Run("half written by a program that died", func(t *testing.T) {
		t.Parallel()
		path := abandoned(t, "-journal")
		refuses(t, path, sqlite.Options{})
		run(t, path, "insert into orders (total) values (9)") // the program itself undoes the unfinished transaction
		untouched(t, path, func() {
			if got := count(t, path); got != 2 {
				t.Errorf("the file has %d rows, want 2", got)
			}
		})
	})
	for _, ending := range []string{"-wal", "-journal"} {
		t.Run("by a link, with its "+ending, func(t *testing.T) {
			t.Parallel()
			pragmas := map[string][]string{"-wal": {"pragma journal_mode = wal"}}
			path := abandoned(t, ending, pragmas[ending]...)
			if err := os.WriteFile(path+"-shm", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(t.TempDir(), "link.db")
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			untouched(t, path, func() {
				if _, err := sqlite.Open(t.Context(), link, sqlite.Options{}); !errors.Is(err, dibs.ErrSchema) {
					t.Errorf("Open gave %v", err)
				}
			})
		})
	}
	t.Run("half written, so that it cannot be read", func(t *testing.T) {
		t.Parallel()
		path := abandoned(t, "-journal")
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		refuses(t, path, sqlite.Options{})
	})
	t.Run("without tables", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "empty.db")
		run(t, path, "pragma application_id = 7")
		refuses(t, path, sqlite.Options{})
	})
}

// abandoned makes the file of a program that died in the middle of a large transaction, with
// the -wal or -journal beside it, and returns its path.
func abandoned(t *testing.T, ending string, pragmas ...string) string {
	t.Helper()
	path := foreignFile(t, pragmas...)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	fill := "insert into orders (total) with recursive n (i) as (select 1 union all select i + 1 from n where i < 100000) select i from n"
	for _, s := range []string{"pragma cache_size = 1", "begin", fill} {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(t.TempDir(), "left.db")
	for _, end := range []string{"", ending} {
		copyTo(t, path+end, left+end)
	}
	return left
}

func count(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "select count(*) from orders").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Another program's table may have the name of dibs' table of versions.
func TestATableThatIsNotOursIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	run(t, path, "create table dibs_migration (name text, version integer)", "insert into dibs_migration values ('orders', 1)")
	for name, call := range map[string]func() error{
		"Open":    func() error { _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); return err },
		"Migrate": func() error { return sqlite.Migrate(t.Context(), path, sqlite.Options{}) },
	} {
		untouched(t, path, func() {
			if err := call(); !errors.Is(err, dibs.ErrSchema) || !strings.Contains(err.Error(), "dibs_migration is another program's; give another prefix") {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestMigrateAddsTheTablesToAnotherProgramsFile(t *testing.T) {
	t.Parallel()
	path := foreignFile(t)
	for range 2 { // the second call finds nothing to do
		if err := sqlite.Migrate(t.Context(), path, sqlite.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	s := openAt(t, path, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Error(err)
	}
	var total int
	if err := s.DB().QueryRowContext(t.Context(), "select total from orders").Scan(&total); err != nil || total != 7 {
		t.Errorf("the other program's row is %d: %v", total, err)
	}
}

// If another program's table has a name that dibs needs, nothing is changed.
func TestAMigrationThatFailsLeavesTheFileAlone(t *testing.T) {
	t.Parallel()
	path := foreignFile(t)
	run(t, path, "create table dibs_finished (x)")
	untouched(t, path, func() {
		if err := sqlite.Migrate(t.Context(), path, sqlite.Options{}); err == nil {
			t.Error("it did not fail")
		}
	})
}

// When the change to WAL mode did not wait, all but one failed in two of ten such rounds.
func TestManyOpenANewFileAtOnce(t *testing.T) {
	needs.Race(t)
	needs.Long(t)
	t.Parallel()
	for range 2 {
		path := filepath.Join(t.TempDir(), "jobs.db")
		stores, errs := make([]*sqlite.Store, 24), make([]error, 24)
		var all sync.WaitGroup
		for i := range stores {
			all.Go(func() {
				if stores[i], errs[i] = sqlite.Open(t.Context(), path, sqlite.Options{}); errs[i] == nil {
					_, errs[i] = stores[i].Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}})
				}
			})
		}
		all.Wait()
		for i, s := range stores {
			if errs[i] != nil {
				t.Error(errs[i])
			}
			if s == nil {
				continue
			}
			consistent(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// SQLite ignores the case of names.
func TestPrefixesThatDifferByCaseAreOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	upper, lower := openAt(t, path, sqlite.Options{Prefix: "Shop_"}), openAt(t, path, sqlite.Options{Prefix: "shop_"})
	if _, err := upper.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	jobs, err := lower.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
	if err != nil || len(jobs) != 1 {
		t.Errorf("%v, %v", jobs, err)
	}
}

func TestAPathThatBeginsWithTwoSlashesIsAbsolute(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there it is a share")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, "/"+path, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k"}}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// A damaged file gives an error, at the latest when it is read, and opening it changes
// nothing.
func TestDamagedFilesAreToldAsSuch(t *testing.T) {
	t.Parallel()
	whole := filepath.Join(t.TempDir(), "jobs.db")
	s, err := sqlite.Open(t.Context(), whole, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		damage     func([]byte) []byte
	}{
		{"a header of another format", "restore it from a backup", func(b []byte) []byte { copy(b, "SQLite format 9"); return b }},
		{"a page size that cannot be", "restore it from a backup", func(b []byte) []byte { b[16], b[17] = 3, 3; return b }},
		{"one byte", "not a SQLite file", func(b []byte) []byte { return b[:1] }},
		{"ten bytes", "not a SQLite file", func(b []byte) []byte { return b[:10] }},
		{"half of the first page", "damaged", func(b []byte) []byte { return b[:2048] }},
		{"its second half is missing", "damaged", func(b []byte) []byte { return b[:len(b)/2/4096*4096] }},
		{"the list of its tables is overwritten", "damaged", func(b []byte) []byte { copy(b[100:], bytes.Repeat([]byte{0xff}, 3900)); return b }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "jobs.db")
			if err := os.WriteFile(path, c.damage(slices.Clone(content)), 0o600); err != nil {
				t.Fatal(err)
			}
			untouched(t, path, func() {
				s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
				if err == nil {
					_, err = s.Check(t.Context())
					err = errors.Join(err, s.Close())
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q in it", err, c.want)
				}
			})
		})
	}
}
