package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// checkedUpTo is how many bytes a file has at most that Diagnose has SQLite check.
const checkedUpTo = 64 << 20

// Diagnose looks for what keeps jobs from running well: jobs that die or lose their leases, upkeep
// that is late, a -wal that a reader keeps from being reset, processes that lock the file for
// long, and where the file is. It only reads, and locks nothing; it takes up to a second where
// another process holds the write lock. With names of parts, as Looked of a report has them, it looks only
// at these. The command dibs doctor puts it into words.
func (s *Store) Diagnose(ctx context.Context, parts ...string) (admin.Diagnosis, error) {
	var r admin.Diagnosis
	if err := s.ready(ctx); err != nil {
		return r, wrap("diagnose", err)
	}
	var now int64
	err := s.read(ctx, "clock_now", func(rows *sql.Rows) error { return rows.Scan(&now) })
	if err != nil {
		return r, wrap("diagnose", err)
	}
	r.Now = checks.Time(time.UnixMicro(now))
	wanted := func(part string) bool { return len(parts) == 0 || slices.Contains(parts, part) }
	if wanted("jobs and upkeep") {
		if r.Facts, err = s.jobFacts(ctx); err != nil {
			return r, wrap("diagnose", err)
		}
		r.Looked = []string{"jobs and upkeep"}
	}
	if wanted("the file") {
		if err := addFile(ctx, s.readers, s.path, s.sql, &r); err != nil {
			return r, wrap("diagnose", s.failed(ctx, err))
		}
	}
	if wanted("locks of the file") {
		addLocks(ctx, s.path, &r)
	}
	return r, nil
}

// DiagnoseFile looks at the file of an adopted table, as [Store.Diagnose] does at that of dibs' own tables: a -wal that a
// reader keeps from being reset, processes that lock the file for long, and where it is.
func DiagnoseFile(ctx context.Context, db *sql.DB) (r admin.Diagnosis, err error) {
	texts, err := load("")
	if err := cmp.Or(checks.Context(ctx), checks.Database(db), err); err != nil {
		return r, err
	}
	var path string
	var now int64
	if err := db.QueryRowContext(ctx, mainFile).Scan(&path); err != nil {
		return r, wrap("diagnose", err)
	}
	if err := db.QueryRowContext(ctx, "select cast(unixepoch('subsec') * 1000000 as integer)").Scan(&now); err != nil {
		return r, wrap("diagnose", err)
	}
	r.Now = checks.Time(time.UnixMicro(now))
	if err := addFile(ctx, db, path, texts, &r); err != nil {
		return r, wrap("diagnose", err)
	}
	addLocks(ctx, path, &r)
	return r, nil
}

// addFile adds to a report the facts about a file.
func addFile(ctx context.Context, db *sql.DB, path string, texts *statements, r *admin.Diagnosis) error {
	facts, err := fileFacts(ctx, db, path, texts.Statements.Get("diagnose_file"))
	if err != nil {
		return err
	}
	r.Looked, r.Facts = append(r.Looked, "the file"), append(r.Facts, facts...)
	return nil
}

// addLocks adds to a report which processes lock a file.
func addLocks(ctx context.Context, path string, r *admin.Diagnosis) {
	facts, err := lockFacts(ctx, path)
	if err != nil {
		r.Skipped = append(r.Skipped, admin.Skipped{Part: "locks of the file", Err: err})
		return
	}
	r.Looked, r.Facts = append(r.Looked, "locks of the file"), append(r.Facts, facts...)
}

func (s *Store) jobFacts(ctx context.Context) (facts []admin.Fact, err error) {
	err = s.read(ctx, "diagnose", func(rows *sql.Rows) error {
		var f admin.Fact
		var age int64
		err := rows.Scan(&f.Name, &f.About, &f.ID, &f.N, &f.Of, &age, &f.Text)
		f.Age = time.Duration(age) * time.Microsecond
		facts = append(facts, f)
		return err
	})
	return facts, err
}

// fileFacts looks at the file, and at the -wal beside it.
func fileFacts(ctx context.Context, db *sql.DB, path, text string) (facts []admin.Fact, err error) {
	var size, free, page int64
	var version string
	if err := db.QueryRowContext(ctx, text).Scan(&size, &free, &page, &version); err != nil {
		return nil, err
	}
	facts = append(facts, admin.Fact{Name: "file", About: path, N: size, Of: free, Text: version})
	if free > size/2 && size > checkedUpTo {
		facts = append(facts, admin.Fact{Name: "free_pages", About: path, N: free, Of: size})
	}
	// NOOP only counts: the pages of the -wal, and how many of these have been moved into the file.
	var busy, inWAL, moved int64
	if err := db.QueryRowContext(ctx, "pragma wal_checkpoint(noop)").Scan(&busy, &inWAL, &moved); err != nil {
		return nil, err
	}
	if waiting := (inWAL - moved) * page; waiting > checkedUpTo/4 {
		facts = append(facts, admin.Fact{Name: "wal", About: path, N: waiting, Of: size})
	}
	if name, bytes := fileSystem(path); name != "" {
		facts = append(facts, admin.Fact{Name: "network_file", About: path, Text: name})
	} else if bytes >= 0 && bytes < checkedUpTo {
		facts = append(facts, admin.Fact{Name: "disk_full", About: path, N: bytes})
	}
	if size > checkedUpTo {
		return facts, nil
	}
	var wrong string
	err = db.QueryRowContext(ctx, "pragma quick_check(1)").Scan(&wrong)
	if code, ok := resultCode(err); ok && code == sqlite3.SQLITE_CORRUPT {
		wrong, err = err.Error(), nil
	}
	if err != nil {
		return nil, err
	}
	if wrong != "ok" {
		facts = append(facts, admin.Fact{Name: "damaged", About: path, Text: wrong})
	}
	return facts, nil
}

var errNoLocks = errors.New("this system does not tell who locks a file")
