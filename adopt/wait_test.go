package adopt_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/needs"
)

// Rows may be ended by a worker, or by any program with SQL, which may also delete them.
func TestWaitingForRows(t *testing.T) {
	needs.Race(t)
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table work (done int not null default 0, id text primary key)")
		exec(t, db, "insert into work (id) values ('a'), ('b'), ('c'), ('d')")
		m := sideMapping("id")
		m.Lease = time.Hour
		s, other := open(t, db, m), open(t, db, m)
		jobs := claim(t, s, 4)
		type ended struct {
			job *dibs.RawJob
			err error
		}
		ends := make([]chan ended, len(jobs))
		for i, j := range jobs {
			id, err := other.ID(j.Key)
			if err != nil {
				t.Fatal(err)
			}
			ends[i] = make(chan ended, 1)
			go func() {
				j, err := other.Wait(t.Context(), id)
				ends[i] <- ended{j, err}
			}()
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil), jobs[1].Lease().Die("x")}); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "update work set done = 1 where id = 'c'")
		for i, want := range []dibs.State{dibs.Completed, dibs.Dead, dibs.Completed} {
			if e := <-ends[i]; e.err != nil || e.job.State != want || e.job.Key != jobs[i].Key {
				t.Errorf("waiting for %s gave %+v, %v", jobs[i].Key, e.job, e.err)
			}
		}
		select {
		case e := <-ends[3]:
			t.Errorf("the row that is running gave %+v, %v", e.job, e.err)
		default:
		}
		exec(t, db, "delete from work where id = 'd'")
		if e := <-ends[3]; !errors.Is(e.err, dibs.ErrNotFound) {
			t.Errorf("the deleted row gave %+v, %v", e.job, e.err)
		}
		unknown, err := s.ID("unknown")
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []int64{unknown, 5, 1 << 62} {
			if _, err := s.Wait(t.Context(), id); !errors.Is(err, dibs.ErrNotFound) {
				t.Errorf("waiting for no row gave %v", err)
			}
		}
		if _, err := s.Wait(context.Context(nil), 1); !errors.Is(err, dibs.ErrInvalid) { //nolint:staticcheck // a mistake of callers
			t.Errorf("a nil context gave %v", err)
		}
	})
}

// A worker of an adopted table extends its leases as ever when its handlers set progress.
func TestProgressOfRowsIsPassedOver(t *testing.T) {
	onEach(t, func(t *testing.T, db *sql.DB, _ bool) {
		exec(t, db, "create table work (done int not null default 0, id text primary key)")
		exec(t, db, "insert into work (id) values ('a')")
		m := sideMapping("id")
		s := open(t, db, m)
		j := claim(t, s, 1)[0]
		l := j.Lease()
		l.Progress = &dibs.Progress{Done: 1}
		for range 3 {
			if e, err := s.Extend(t.Context(), []dibs.Lease{l}, time.Hour); err != nil || len(e.Lost) > 0 {
				t.Fatal(e, err)
			}
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{j.Lease().Complete(nil)}); err != nil {
			t.Error(err)
		}
	})
}
