package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/mysql"
)

// TestNoJobIsHeldTwiceWhileConnectionsAreKilled has eight claimers of two stores end jobs, some of groups of limit 1, while
// the server kills their connections again and again. Each job must be ended once, and none may be held twice at once.
func TestNoJobIsHeldTwiceWhileConnectionsAreKilled(t *testing.T) {
	needs.Night(t, soLong)
	t.Parallel()
	const jobs, claimers = 200, 8
	address := mytest.Address(t)
	a, b := openStore(t, address), openStore(t, address)
	var list []dibs.NewJob
	for i := range jobs {
		j := dibs.NewJob{Queue: "q", Kind: "k"}
		if i%2 == 0 {
			j.Group = fmt.Sprint("g", i%8)
		}
		list = append(list, j)
	}
	if _, err := a.Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	done, stop := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	killer.Go(func() { killAll(t, done, callers(t, address)) })
	var mu sync.Mutex
	ended := map[int64]int{}
	var all errgroup.Group
	for i := range claimers {
		s := a
		if i%2 == 1 {
			s = b
		}
		all.Go(func() error {
			for {
				stats, err := s.Stats(t.Context())
				if err == nil && len(stats) == 1 && stats[0].Completed == jobs {
					return nil
				}
				// A claim whose commit was cut off may hold jobs: their leases end soon.
				got, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 3, Lease: 500 * time.Millisecond})
				if err != nil && !errors.Is(err, dibs.ErrUnavailable) {
					return err
				}
				for _, j := range got {
					over, err := endOnce(t.Context(), s, j)
					if err != nil {
						return err
					}
					if over {
						mu.Lock()
						ended[j.ID]++
						mu.Unlock()
					}
				}
			}
		})
	}
	err := all.Wait()
	stop()
	killer.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for id, n := range ended {
		if n != 1 {
			t.Errorf("job %d was ended %d times", id, n)
		}
	}
	found, err := a.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("check: %q, %v", found, err)
	}
}

// endOnce ends a job, and reports whether this call has ended it.
func endOnce(ctx context.Context, s *mysql.Store, j *dibs.RawJob) (over bool, err error) {
	err = s.Finish(ctx, []dibs.Outcome{j.Lease().Complete(nil)})
	switch {
	case errors.Is(err, dibs.ErrLeaseLost):
		return false, nil
	case errors.Is(err, dibs.ErrUnavailable): // it may have ended the job all the same, as nobody else can within the lease
		now, err := s.Get(ctx, j.ID)
		return err == nil && now.State == dibs.Completed && now.Attempt == j.Attempt, nil
	}
	return err == nil, err
}

// killAll kills a connection to the database every few milliseconds.
func killAll(t *testing.T, ctx context.Context, db *sql.DB) {
	for ctx.Err() == nil {
		var id sql.NullInt64
		err := db.QueryRowContext(ctx, "select id from information_schema.processlist where db = database() and id <> connection_id() order by rand() limit 1").Scan(&id)
		if err == nil {
			_, _ = db.ExecContext(ctx, fmt.Sprint("kill ", id.Int64)) // it may have ended
		}
		time.Sleep(20 * time.Millisecond)
	}
}
