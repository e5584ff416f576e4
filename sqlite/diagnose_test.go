package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

// diagnosed returns the facts of a name.
func diagnosed(t *testing.T, s *sqlite.Store, name string) []admin.Fact {
	t.Helper()
	r, err := s.Diagnose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(r.Facts, func(f admin.Fact) bool { return f.Name != name })
}

// beside opens one connection of another program to a store's file.
func beside(t *testing.T, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // nothing is left to fail
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func doOn(t *testing.T, c *sql.Conn, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := c.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func TestDiagnoseReportsOnlyTheSizeOfAHealthyFile(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k", Group: "g"}}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Diagnose(t.Context())
	if err != nil || len(r.Facts) != 1 || r.Facts[0].Name != "file" || r.Facts[0].N < 4096 || time.Since(r.Now).Abs() > time.Minute {
		t.Errorf("Diagnose reports %+v, %v", r, err)
	}
}

// A reader that does not end keeps the -wal from being moved into the file: Diagnose says how much
// there is, and who reads.
func TestDiagnoseFindsAReaderThatNeverEnds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	reader, writer := beside(t, path), beside(t, path)
	doOn(t, writer, "create table big (x)", "begin", "select * from big") // a transaction begins its snapshot when it reads
	doOn(t, writer, "commit")
	doOn(t, reader, "begin", "select * from big")
	for range 20 {
		doOn(t, writer, "insert into big values (zeroblob(1000000))")
	}
	if facts := diagnosed(t, s, "wal"); len(facts) != 1 || facts[0].N < 16<<20 {
		t.Errorf("Diagnose reports %+v", facts)
	}
	if runtime.GOOS == "linux" {
		if facts := diagnosed(t, s, "reader"); len(facts) == 0 || facts[0].ID != int64(os.Getpid()) || facts[0].About == "" {
			t.Errorf("Diagnose reports %+v", facts)
		}
	}
	doOn(t, reader, "commit")
	doOn(t, writer, "insert into big values (1)") // this writes into the file what the -wal holds
	if facts := diagnosed(t, s, "wal"); len(facts) > 0 {
		t.Errorf("with no reader, Diagnose reports %+v", facts)
	}
	doOn(t, writer, "drop table big")
}

func TestDiagnoseFindsWhoHoldsTheWriteLock(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("this system does not tell")
	}
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	writer := beside(t, path)
	doOn(t, writer, "begin immediate")
	if facts := diagnosed(t, s, "writer"); len(facts) != 1 || facts[0].ID != int64(os.Getpid()) || facts[0].Age < time.Second {
		t.Errorf("Diagnose reports %+v", facts)
	}
	doOn(t, writer, "rollback")
	if facts := diagnosed(t, s, "writer"); len(facts) > 0 {
		t.Errorf("with no writer, Diagnose reports %+v", facts)
	}
}

func TestDiagnoseFindsADamagedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	other := beside(t, path)
	doOn(t, other, "create table big (x)", "insert into big values (zeroblob(5000)), (zeroblob(1000)), (zeroblob(3000))")
	var page, size int64
	if err := other.QueryRowContext(t.Context(), "select rootpage, page_size from sqlite_schema, pragma_page_size where name = 'big'").Scan(&page, &size); err != nil {
		t.Fatal(err)
	}
	doOn(t, other, "pragma wal_checkpoint(truncate)")
	if err := errors.Join(other.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte{99}, (page-1)*size)
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = sqlite.Open(t.Context(), path, sqlite.Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if facts := diagnosed(t, s, "damaged"); len(facts) != 1 || facts[0].Text == "" {
		t.Errorf("Diagnose reports %+v", facts)
	}
}

func TestDiagnoseFindsAClockThatWasPutBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	doOn(t, beside(t, path), "update dibs_clock set now = now + 600000000")
	if facts := diagnosed(t, s, "clock_ahead"); len(facts) != 1 || facts[0].Age < 9*time.Minute {
		t.Errorf("Diagnose reports %+v", facts)
	}
}

func TestDiagnoseFindsAFileThatIsMostlyEmpty(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	s := openAt(t, path, sqlite.Options{})
	other := beside(t, path)
	doOn(t, other, "create table big (x)", "insert into big values (zeroblob(70000000))", "drop table big")
	if facts := diagnosed(t, s, "free_pages"); len(facts) != 1 || facts[0].N < 60<<20 || facts[0].Of < facts[0].N {
		t.Errorf("Diagnose reports %+v", facts)
	}
}

func TestDiagnoseRefusesBadArguments(t *testing.T) {
	t.Parallel()
	var none *sqlite.Store
	if _, err := none.Diagnose(t.Context()); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("without a store: %v", err)
	}
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var missing context.Context
	if _, err := s.Diagnose(missing); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("without a context: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Diagnose(t.Context()); !errors.Is(err, dibs.ErrClosed) {
		t.Errorf("of a closed store: %v", err)
	}
}

func TestDiagnoseOfAFileRefusesBadArguments(t *testing.T) {
	t.Parallel()
	if _, err := sqlite.DiagnoseFile(t.Context(), nil); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("without a database: %v", err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "t.db"))
	if err != nil {
		t.Fatal(err)
	}
	var missing context.Context
	if _, err := sqlite.DiagnoseFile(missing, db); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("without a context: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.DiagnoseFile(t.Context(), db); err == nil {
		t.Error("a database that is closed was diagnosed")
	}
}
