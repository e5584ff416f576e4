package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/mysql"
)

// openTx begins a transaction of a caller's in which jobs are enqueued.
func openTx(t *testing.T, s *mysql.Store, jobs ...dibs.NewJob) (*sql.Tx, []dibs.Enqueued) {
	t.Helper()
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // it may have been committed
	done, err := s.SQLTx(tx).Enqueue(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return tx, done
}

// uncommitted reads a number from what transactions have written, committed or not.
func uncommitted(t *testing.T, s *mysql.Store, text string) (n int) {
	t.Helper()
	tx, err := s.DB().BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadUncommitted})
	if err == nil {
		err = errors.Join(tx.QueryRowContext(t.Context(), text).Scan(&n), tx.Rollback())
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// soundAfter checks that nothing in the database breaks an invariant.
func soundAfter(t *testing.T, s *mysql.Store) {
	t.Helper()
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check: %q, %v", found, err)
	}
}

// An enqueue with a key that an open transaction enqueues too does not insert a second job: it learns of the first, or fails.
func TestAKeyOfAnOpenTransactionIsLocked(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	unique := dibs.NewJob{Queue: "q", Kind: "k", UniqueKey: "u"}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	for _, made := range []bool{false, true} { // the key has a row in the second round
		tx, first := openTx(t, s, unique)
		short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
		refused := make(chan struct{})
		go func() {
			defer close(refused)
			if got, err := s.Enqueue(short, []dibs.NewJob{unique}); err == nil {
				t.Errorf("key made before: %v: beside the transaction the enqueue gave %+v", made, got)
			}
		}()
		for ended := false; !ended; {
			select {
			case <-refused:
				ended = true
			case <-time.After(5 * time.Millisecond):
			}
			if n := uncommitted(t, s, "select count(*) from dibs_job where unique_held = 1"); n != 1 {
				t.Errorf("key made before: %v: %d jobs hold the key", made, n)
				ended = true
			}
		}
		stop()
		<-refused
		type answer struct {
			got []dibs.Enqueued
			err error
		}
		second := make(chan answer, 1)
		go func() {
			got, err := s.Enqueue(t.Context(), []dibs.NewJob{unique})
			second <- answer{got, err}
		}()
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if a := <-second; a.err != nil || !a.got[0].Existing || a.got[0].ID != first[0].ID {
			t.Errorf("key made before: %v: after the transaction the enqueue gave %+v, want job %d", made, a, first[0].ID)
		}
		if _, _, err := s.Cancel(t.Context(), []int64{first[0].ID}); err != nil {
			t.Fatal(err)
		}
	}
	soundAfter(t, s)
}

// A call that has found a key locked waits for it in the server, with those before it locked, so that others do not get them
// all the time while it looks again. Few calls do so at a time, and others still get connections.
func TestACallThatFindsAKeyLockedWaitsForIt(t *testing.T) {
	t.Parallel()
	s := openWith(t, mytest.Address(t), mysql.Options{MaxConns: 4}) // so one call waits at a time
	a, b := dibs.NewJob{Queue: "q", Kind: "k", UniqueKey: "a"}, dibs.NewJob{Queue: "q", Kind: "k", UniqueKey: "b"}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}}); err != nil { // makes the queue
		t.Fatal(err)
	}
	tx, held := openTx(t, s, b)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			got, err := s.Enqueue(t.Context(), []dibs.NewJob{b, a})
			for errors.Is(err, dibs.ErrUnavailable) { // the machine is so busy that the call has waited too long
				got, err = s.Enqueue(t.Context(), []dibs.NewJob{b, a})
			}
			if err != nil || got[0] != (dibs.Enqueued{ID: held[0].ID, Existing: true}) {
				t.Errorf("after the transaction the enqueue gave %+v, %v, want job %d", got, err, held[0].ID)
			}
		})
	}
	waiting := 0
	for began := time.Now(); waiting == 0 && time.Since(began) < time.Minute; time.Sleep(200 * time.Millisecond) { // the server does not look again sooner
		err := s.DB().QueryRowContext(t.Context(), `select count(*) from information_schema.innodb_trx x
			join information_schema.processlist p on p.id = x.trx_mysql_thread_id and p.db = database()
			where x.trx_state = 'LOCK WAIT' and x.trx_query like '%dibs_key%for update%'`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
	if waiting != 1 {
		t.Errorf("%d calls wait for keys, want 1 of 6 with four connections", waiting)
	}
	if _, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1}); err != nil {
		t.Errorf("a claim beside those that wait: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	soundAfter(t, s)
}

// A period that has ended is kept while a transaction has its key locked: that may have read the clock before the end.
func TestAPeriodIsKeptWhileItsKeyIsLocked(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	job := dibs.NewJob{Queue: "q", Kind: "k", UniqueKey: "a", UniqueFor: time.Millisecond}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{job}); err != nil {
		t.Fatal(err)
	}
	if err := pass(t.Context(), s.DB(), time.Second); err != nil {
		t.Fatal(err)
	}
	periods := func() int {
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		return uncommitted(t, s, "select count(*) from dibs_unique_window")
	}
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "select check_at from dibs_key where unique_key = 'a' for update"); err != nil {
		t.Fatal(err)
	}
	if n := periods(); n != 1 {
		t.Errorf("%d periods are kept beside the transaction that has the key locked", n)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n := periods(); n != 0 {
		t.Errorf("%d periods are kept after it", n)
	}
}

// A queue into which an open transaction has enqueued a job is not deleted.
func TestAQueueIntoWhichAnOpenTransactionEnqueuesIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	if _, err := s.ChangeQueue(t.Context(), "q", func(*dibs.Queue) error { return nil }); err != nil {
		t.Fatal(err)
	}
	tx, _ := openTx(t, s, dibs.NewJob{Queue: "q", Kind: "k"})
	if err := s.DeleteQueue(t.Context(), "q", false); !errors.Is(err, dibs.ErrQueueInUse) {
		t.Errorf("beside the transaction the deletion of the queue gave %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if queues, err := s.Queues(t.Context(), "q"); err != nil || len(queues) != 1 {
		t.Errorf("the queues are %+v, %v", queues, err)
	}
	soundAfter(t, s)
}

// A call that needs a job which an open transaction has locked does not take it for one that is not there.
func TestACancelOfALockedJobSaysThatItWasNotDone(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	done, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), "update dibs_job set priority = 1")
	}
	if err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if ended, asked, err := s.Cancel(short, []int64{done[0].ID}); err == nil {
		t.Errorf("beside the transaction the cancellation ended %v and asked for %v", ended, asked)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if ended, _, err := s.Cancel(t.Context(), []int64{done[0].ID}); err != nil || len(ended) != 1 {
		t.Errorf("after the transaction the cancellation ended %v, %v", ended, err)
	}
	soundAfter(t, s)
}

// A job that comes after one which an open transaction has ended starts once that has committed.
func TestAFollowerOfAJobThatAnOpenTransactionEndsStarts(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	ctx := t.Context()
	first, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(ctx, dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := s.DB().BeginTx(ctx, nil)
	if err == nil {
		err = s.SQLTx(tx).Finish(ctx, []dibs.Outcome{claimed[0].Lease().Complete(nil)})
	}
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "q", Kind: "k", After: []dibs.Dep{{ID: first[0].ID}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if j, err := s.Get(ctx, second[0].ID); err != nil || j.State != dibs.Waiting {
		t.Errorf("after the end of what it comes after the job is %v, %v", j, err)
	}
	soundAfter(t, s)
}

// A process that stands still in a transaction, as one that is stopped or whose machine is, keeps its locks for a time only:
// then others get its jobs.
func TestAProcessThatStandsStillKeepsNoLocks(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s := openStore(t, address)
	stopped, err := mysql.Open(t.Context(), address+"?idle_transaction_timeout=1", mysql.Options{})
	if err == nil {
		_, err = stopped.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
	}
	if err == nil {
		_, err = stopped.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1})
	}
	if err == nil {
		err = pass(t.Context(), s.DB(), time.Hour)
	}
	if err == nil {
		err = stopped.Stand(t.Context(), "update dibs_claim set worker = 'other'")
	}
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		swept, err := s.Sweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if swept.Expired == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nobody gets the job of the process that stands still")
		}
	}
}
