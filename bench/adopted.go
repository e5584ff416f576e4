package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/lab/workload"
)

// adoptedTable is a table as in a queue built by hand: with a mark for each claim, a
// timeout and attempts.
const adoptedTable = `create table task (
	id %s primary key,
	payload text not null,
	priority smallint not null,
	created_at %[2]s not null default current_timestamp,
	mark %[3]s,
	server text,
	timeout_at %[2]s,
	attempts integer not null default 0,
	finished_at %[2]s
)`

const (
	adoptedName = "adopted table"
	unadvised   = "the same, no index"
)

// The index and the fillfactor that dibs adopt sql advises for the table.
const (
	adoptedIndex      = "create index task_unfinished on task (priority, id) where finished_at is null"
	adoptedFillFactor = " with (fillfactor = 50)"
)

var adoptedMapping = mapping.Mapping{
	Table: "task", Queue: workload.MailKind,
	ID: mapping.Columns{"id"}, Order: mapping.Columns{"priority"},
	Rows:        mapping.Rows{Unfinished: "finished_at is null", Available: "mark is null"},
	Payload:     mapping.Payload{Columns: mapping.Columns{"payload"}, JSON: true},
	Claim:       mapping.Claim{Token: "mark", LockedBy: "server", Timeout: "timeout_at", Attempts: "attempts"},
	Lease:       10 * time.Second,
	MaxAttempts: 25,
	Completed:   mapping.Change{Set: mapping.Set{"finished_at": "$now"}},
	Dead:        &mapping.Change{Set: mapping.Set{"finished_at": "$now"}},
}

// adoptedSystem is dibs on adoptedTable.
type adoptedSystem struct {
	db    *sql.DB
	store *adopt.Store
}

// adoptedProduct is dibs on an adopted table, with or without the index that it advises.
func adoptedProduct(advised bool) workload.Product {
	name := adoptedName
	if !advised {
		name = unadvised
	}
	return workload.Product{Name: name, Attach: func(ctx context.Context, place workload.Place, pool int, _ bool) (workload.System, error) {
		s := &adoptedSystem{}
		id, when, mark, driver, dsn := "bigint generated always as identity", "timestamptz", "uuid", "pgx", place.URL
		if place.SQLite {
			id, when, mark, driver = "integer", "datetime", "text", "sqlite"
			dsn = "file:" + place.URL + "?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(10000)"
		}
		var err error
		if s.db, err = sql.Open(driver, dsn); err != nil {
			return nil, err
		}
		s.db.SetMaxOpenConns(pool)
		s.db.SetMaxIdleConns(pool)
		statements := []string{fmt.Sprintf(adoptedTable, id, when, mark)}
		if advised {
			if !place.SQLite {
				statements[0] += adoptedFillFactor
			}
			statements = append(statements, adoptedIndex)
		}
		for _, text := range statements {
			if _, err := s.db.ExecContext(ctx, text); err != nil {
				return nil, errors.Join(err, s.db.Close())
			}
		}
		if s.store, err = adopt.Open(ctx, s.db, adoptedMapping); err != nil {
			return nil, errors.Join(err, s.db.Close())
		}
		return s, nil
	}}
}

func (s *adoptedSystem) Close() {
	_ = s.store.Close() // the place is dropped next
	_ = s.db.Close()
}

// Enqueue inserts rows as any other program would.
func (s *adoptedSystem) Enqueue(ctx context.Context, jobs []workload.Job) error {
	values := make([]string, len(jobs))
	for i, j := range jobs {
		values[i] = fmt.Sprintf("('%s', %d)", usualPayload, j.Priority)
	}
	_, err := s.db.ExecContext(ctx, "insert into task (payload, priority) values "+strings.Join(values, ", "))
	return err
}

func (s *adoptedSystem) Work(ctx context.Context, w workload.Work) (func() error, error) {
	return workload.RunWorker(ctx, s.store, s.store.Queue(), w)
}

// onAdopted compares the drain of an adopted table with that of dibs' own, on both databases.
func (b *bench) onAdopted() []comparison {
	var list []comparison
	for _, on := range []*workload.Bench{&b.Bench, b.lite()} {
		w := on.Drain(workload.LetterBytes, true)
		w.ID = "adopt"
		if on.SQLite {
			w.Name = "SQLite: " + w.Name
		}
		c := comparison{Workload: w, sqlite: on.SQLite, targets: []string{"adopted 0.6 x dibs"}}
		for _, p := range []workload.Product{workload.Dibs, adoptedProduct(true), adoptedProduct(false)} {
			c = c.add(p.Name, func(ctx context.Context) (workload.Measured, error) { return w.Run(ctx, on, p) })
		}
		list = append(list, c)
	}
	return list
}
