package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-queue/dibs/diagnosis"
)

// checkedUpTo is how many bytes a file has at most that Diagnose has SQLite check.
const checkedUpTo = 64 << 20

// Diagnose looks for what keeps jobs from running well: jobs that die or lose their leases, upkeep
// that is late, a -wal that a reader keeps from being reset, processes that lock the file for
// long, and where the file is. It only reads, and locks nothing; it takes up to a second where
// another process holds the write lock. The command dibs doctor puts it into words.
func (s *Store) Diagnose(ctx context.Context) (diagnosis.Report, error) {
	var r diagnosis.Report
	look := func(part string, f func() ([]diagnosis.Fact, error)) error {
		facts, err := f()
		if err != nil {
			return wrap("diagnose", err)
		}
		r.Looked, r.Facts = append(r.Looked, part), append(r.Facts, facts...)
		return nil
	}
	var now int64
	err := s.read(ctx, "clock_now", func(rows *sql.Rows) error { return rows.Scan(&now) })
	if err != nil {
		return r, wrap("diagnose", err)
	}
	r.Now = fromMicro(now)
	if err := look("jobs and upkeep", func() ([]diagnosis.Fact, error) { return s.jobFacts(ctx) }); err != nil {
		return r, err
	}
	if err := look("the file", func() ([]diagnosis.Fact, error) { return s.fileFacts(ctx) }); err != nil {
		return r, err
	}
	facts, err := s.lockFacts(ctx)
	if err != nil {
		r.Skipped = append(r.Skipped, diagnosis.Skipped{Part: "locks of the file", Err: err})
		return r, nil
	}
	r.Looked, r.Facts = append(r.Looked, "locks of the file"), append(r.Facts, facts...)
	return r, nil
}

func (s *Store) jobFacts(ctx context.Context) (facts []diagnosis.Fact, err error) {
	err = s.read(ctx, "diagnose", func(rows *sql.Rows) error {
		var f diagnosis.Fact
		var age int64
		err := rows.Scan(&f.Name, &f.About, &f.ID, &f.N, &f.Of, &age, &f.Text)
		f.Age = time.Duration(age) * time.Microsecond
		facts = append(facts, f)
		return err
	})
	return facts, err
}

// fileFacts looks at the file, and at the -wal beside it.
func (s *Store) fileFacts(ctx context.Context) (facts []diagnosis.Fact, err error) {
	var size, free, page int64
	var version string
	err = s.read(ctx, "diagnose_file", func(rows *sql.Rows) error { return rows.Scan(&size, &free, &page, &version) })
	if err != nil {
		return nil, err
	}
	facts = append(facts, diagnosis.Fact{Name: "file", About: s.path, N: size, Of: free, Text: version})
	if free > size/2 && size > checkedUpTo {
		facts = append(facts, diagnosis.Fact{Name: "free_pages", About: s.path, N: free, Of: size})
	}
	// NOOP only counts the pages of the -wal, and those that have been moved into the file.
	var busy, inWAL, moved int64
	if err := s.readers.QueryRowContext(ctx, "pragma wal_checkpoint(noop)").Scan(&busy, &inWAL, &moved); err != nil {
		return nil, s.failed(ctx, err)
	}
	if waiting := (inWAL - moved) * page; waiting > checkedUpTo/4 {
		facts = append(facts, diagnosis.Fact{Name: "wal", About: s.path, N: waiting, Of: size})
	}
	if name, bytes := fileSystem(s.path); name != "" {
		facts = append(facts, diagnosis.Fact{Name: "network_file", About: s.path, Text: name})
	} else if bytes >= 0 && bytes < checkedUpTo {
		facts = append(facts, diagnosis.Fact{Name: "disk_full", About: s.path, N: bytes})
	}
	if size > checkedUpTo {
		return facts, nil
	}
	var wrong string
	err = s.readers.QueryRowContext(ctx, "pragma quick_check(1)").Scan(&wrong)
	if code, ok := resultCode(err); ok && code == sqlite3.SQLITE_CORRUPT {
		wrong, err = err.Error(), nil
	}
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	if wrong != "ok" {
		facts = append(facts, diagnosis.Fact{Name: "damaged", About: s.path, Text: wrong})
	}
	return facts, nil
}

var errNoLocks = errors.New("this system does not tell who locks a file")
