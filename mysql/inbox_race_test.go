package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/mysql"
)

// Four programs write orders, each with two rows of the inbox in one transaction; every third is rolled back. Two stores take the
// rows, while connections are killed, or the server is. Each order that was committed has its two jobs once, in their order.
func TestEachRowOfTheInboxBecomesOneJob(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	t.Run("while connections are killed", func(t *testing.T) {
		t.Parallel()
		address := mytest.Address(t)
		insertAndTake(t, address, func(ctx context.Context) { killAll(t, ctx, callers(t, address)) })
	})
	t.Run("while the server is killed", func(t *testing.T) {
		t.Parallel()
		server := mytest.NewServer(t, false)
		insertAndTake(t, server.Address(), func(working context.Context) {
			for range 3 {
				select {
				case <-working.Done():
				case <-time.After(150 * time.Millisecond):
				}
				server.Kill()
				server.Start()
			}
		})
	})
}

// insertAndTake runs the programs and the stores, and meanwhile trouble, whose context ends when the programs have ended.
func insertAndTake(t *testing.T, address string, trouble func(context.Context)) {
	t.Helper()
	a, b, db := openStore(t, address), openStore(t, address), program(t, address)
	execute(t, db, "create table orders (program int, n int, primary key (program, n))")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var takers, programs sync.WaitGroup
	for _, s := range []*mysql.Store{a, b} {
		takers.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Due(ctx, []string{"q"}, nil); err != nil && ctx.Err() == nil && !errors.Is(err, dibs.ErrUnavailable) {
					t.Errorf("taking rows: %v", err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for program := range 4 {
		programs.Go(func() {
			for n, kept := 0, 0; kept < 160 && ctx.Err() == nil; n++ {
				committed, err := order(ctx, db, program, n)
				if committed {
					kept++
				}
				if err != nil { // the order is there with its rows, or none of them is
					time.Sleep(5 * time.Millisecond) // the server may be starting
				}
			}
		})
	}
	working, done := context.WithCancel(ctx)
	go func() {
		programs.Wait()
		done()
	}()
	trouble(working)
	programs.Wait()
	end()
	takers.Wait()
	for inInbox(t, db) > 0 { // the server may not have noticed yet that a connection with the turn has ended
		if _, err := a.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	eachOrderHasItsJobs(t, db)
	hasNoDamage(t, a)
}

func order(ctx context.Context, db *sql.DB, program, n int) (committed bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	_, err = tx.ExecContext(ctx, "insert into orders values (?, ?)", program, n)
	for part := range 2 {
		if err == nil {
			_, err = tx.ExecContext(ctx, "insert into dibs_inbox (queue, payload) values ('q', ?)", fmt.Sprintf("[%d, %d]", program, 2*n+part))
		}
	}
	if err != nil || n%3 == 0 {
		return false, err
	}
	err = tx.Commit()
	return err == nil, err
}

func eachOrderHasItsJobs(t *testing.T, db *sql.DB) {
	t.Helper()
	var orders, jobs, known, disordered int
	err := db.QueryRowContext(t.Context(), `
		with job as (
			select j.id, json_value(j.payload, '$[0]') + 0 as program, json_value(j.payload, '$[1]') + 0 as part
			from dibs_job j
		), ordered as (
			select part, lag(part) over (partition by program order by id) as before_it
			from job
		)
		select
			(select count(*) from orders),
			(select count(*) from job),
			(select count(distinct j.program, j.part) from job j join orders o on o.program = j.program and o.n = j.part div 2),
			(select count(*) from ordered where part < before_it)`).Scan(&orders, &jobs, &known, &disordered)
	if err != nil {
		t.Fatal(err)
	}
	if orders == 0 || jobs != 2*orders || known != 2*orders || disordered != 0 {
		t.Errorf("%d orders have %d jobs, of which %d are different jobs of theirs, and %d not in order", orders, jobs, known, disordered)
	}
	t.Log(orders, "orders")
}
