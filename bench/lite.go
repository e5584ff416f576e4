package main

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver

	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// onSQLite is W10: W1 to W3 on SQLite with durable commits, beside the same driver with a
// bare table; and W12 and W13, how many processes share a file, and flows.
func (b *bench) onSQLite() []comparison {
	lite := b.lite()
	var list []comparison
	for _, c := range []struct {
		workload.Workload
		target string
		bare   onLite
	}{
		{lite.Bulk(liteBatch, workload.LetterBytes), "120k", liteBulk},
		{lite.Single(liteCallers), "40k", liteSingle},
		{lite.Drain(workload.LetterBytes, true), "30k", liteDrain},
	} {
		w := comparison{Workload: c.Workload, sqlite: true, targets: []string{c.target}}
		w.ID, w.Name = "W10", "SQLite: "+w.Name
		list = append(list, w.add("dibs", func(ctx context.Context) (workload.Measured, error) {
			return c.Run(ctx, b.observed(lite, nil), workload.Dibs)
		}).add(bare, func(ctx context.Context) (workload.Measured, error) {
			return lite.In(ctx, func(place workload.Place) (workload.Measured, error) {
				db, err := openLite(ctx, place.URL)
				if err != nil {
					return workload.Measured{}, err
				}
				defer db.Close()
				return c.bare(ctx, lite, db)
			})
		}))
	}
	var alone []workload.Workload
	for _, f := range workload.Fleets {
		alone = append(alone, f.Workload(lite))
	}
	for _, w := range []workload.Workload{lite.Chains(false), lite.Fans(), lite.Hops()} {
		w.Name = "SQLite: " + w.Name
		alone = append(alone, w)
	}
	for _, one := range alone {
		w := comparison{Workload: one, sqlite: true}
		list = append(list, w.add("dibs", func(ctx context.Context) (workload.Measured, error) {
			return w.Run(ctx, b.observed(b.lite(), nil), workload.Dibs) // its folder is made when the run begins
		}))
	}
	return list
}

// onLite measures with an empty bare table in a SQLite file.
type onLite = func(context.Context, *workload.Bench, *sql.DB) (workload.Measured, error)

const (
	liteBatch   = 1000
	liteCallers = 64
	liteInsert  = "insert into bare (payload) values (?)" // ", (?)" is appended for each further row
	liteDelete  = "delete from bare where id in (select id from bare order by id limit ?) returning id, payload"
)

// openLite creates a bare table in a SQLite file, for one writer.
func openLite(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "create table bare (id integer primary key, payload text not null)"); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// liteFill inserts n rows, 1,000 with each statement. Single-row statements take twice as
// long, and rows from a JSON array half as long again.
func liteFill(ctx context.Context, db *sql.DB, n int) error {
	size := min(liteBatch, n)
	insert, err := db.PrepareContext(ctx, liteInsert+strings.Repeat(", (?)", size-1))
	if err != nil {
		return err
	}
	defer insert.Close()
	rows := slices.Repeat([]any{usualPayload}, size)
	for range n / size {
		if _, err := insert.ExecContext(ctx, rows...); err != nil {
			return err
		}
	}
	if rest := n % size; rest > 0 {
		_, err = db.ExecContext(ctx, liteInsert+strings.Repeat(", (?)", rest-1), rows[:rest]...)
	}
	return err
}

func liteBulk(ctx context.Context, b *workload.Bench, db *sql.DB) (workload.Measured, error) {
	n := b.BulkJobs(workload.LetterBytes)
	return b.Timed(ctx, func() (int, error) { return n, liteFill(ctx, db, n) })
}

func liteSingle(ctx context.Context, b *workload.Bench, db *sql.DB) (workload.Measured, error) {
	return b.Repeated(ctx, liteCallers, func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, liteInsert, usualPayload)
		return err
	})
}

func liteDrain(ctx context.Context, b *workload.Bench, db *sql.DB) (workload.Measured, error) {
	n := b.BulkJobs(workload.LetterBytes)
	if err := liteFill(ctx, db, n); err != nil {
		return workload.Measured{}, err
	}
	return b.Timed(ctx, func() (int, error) {
		return n, workload.Claimers(ctx, 1, n, func(ctx context.Context) (int, error) {
			rows, err := db.QueryContext(ctx, liteDelete, liteBatch)
			if err != nil {
				return 0, err
			}
			defer rows.Close()
			claimed := 0
			for ; rows.Next(); claimed++ {
				var id int64
				var payload string
				if err := rows.Scan(&id, &payload); err != nil {
					return 0, err
				}
			}
			return claimed, rows.Err()
		})
	})
}
