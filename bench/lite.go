package main

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver
)

// sqliteWorkloads are W10: W1 to W3 on SQLite with durable commits, beside what the
// same driver does with a bare table.
func sqliteWorkloads() []workload {
	list := []workload{
		{name: "SQLite: enqueue 100,000, chunks of 1,000", rows: throughput("120k"), contenders: []contender{
			{"dibs", bulk(onSQLite, liteBatch)}, {bare, liteBulk},
		}},
		{name: "SQLite: enqueue single jobs, 64 callers", rows: throughput("40k"), contenders: []contender{
			{"dibs", single(onSQLite, 64)}, {bare, liteSingle},
		}},
		{name: "SQLite: drain 100,000, completed jobs kept", rows: throughput("30k"), contenders: []contender{
			{"dibs", drained(onSQLite, true)}, {bare, liteDrain},
		}},
	}
	for i := range list {
		list[i].id, list[i].sqlite = "W10", true
		list[i].rows = slices.DeleteFunc(list[i].rows, func(r row) bool { return r.key == "wal" || r.key == "server" })
	}
	return list
}

const (
	liteBatch  = 1000
	liteInsert = "insert into bare (payload) values (?)" // and as often ", (?)" as there are more rows
	liteDelete = "delete from bare where id in (select id from bare order by id limit ?) returning id, payload"
)

// openLite makes a bare table in a SQLite file of its own, for one writer.
func (b *bench) openLite(ctx context.Context) (db *sql.DB, drop func(), err error) {
	path, dropFile, err := b.file(ctx)
	if err != nil {
		return nil, nil, err
	}
	db, err = sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err == nil {
		db.SetMaxOpenConns(1)
		_, err = db.ExecContext(ctx, "create table bare (id integer primary key, payload text not null)")
	}
	drop = func() {
		if db != nil {
			_ = db.Close() // its file goes next
		}
		dropFile()
	}
	if err != nil {
		drop()
		return nil, nil, err
	}
	return db, drop, nil
}

// liteFill inserts n rows, 1,000 with each statement: one for each row takes twice as
// long, and rows that come as a JSON array half as long again.
func liteFill(ctx context.Context, db *sql.DB, n int) error {
	size := min(liteBatch, n)
	insert, err := db.PrepareContext(ctx, liteInsert+strings.Repeat(", (?)", size-1))
	if err != nil {
		return err
	}
	defer insert.Close()
	rows := slices.Repeat([]any{barePayload}, size)
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

func liteBulk(ctx context.Context, b *bench) (measured, error) {
	db, drop, err := b.openLite(ctx)
	if err != nil {
		return measured{}, err
	}
	defer drop()
	n := b.count(100_000)
	return b.timed(ctx, func() (int, error) { return n, liteFill(ctx, db, n) })
}

func liteSingle(ctx context.Context, b *bench) (measured, error) {
	db, drop, err := b.openLite(ctx)
	if err != nil {
		return measured{}, err
	}
	defer drop()
	return b.repeated(ctx, 64, func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, liteInsert, barePayload)
		return err
	})
}

func liteDrain(ctx context.Context, b *bench) (measured, error) {
	db, drop, err := b.openLite(ctx)
	if err != nil {
		return measured{}, err
	}
	defer drop()
	n := b.count(100_000)
	if err := liteFill(ctx, db, n); err != nil {
		return measured{}, err
	}
	return b.timed(ctx, func() (int, error) {
		return n, claimers(ctx, 1, n, func(ctx context.Context) (int, error) {
			rows, err := db.QueryContext(ctx, liteDelete, liteBatch)
			if err != nil {
				return 0, err
			}
			defer rows.Close()
			got := 0
			for ; rows.Next(); got++ {
				var id int64
				var payload string
				if err := rows.Scan(&id, &payload); err != nil {
					return 0, err
				}
			}
			return got, rows.Err()
		})
	})
}
