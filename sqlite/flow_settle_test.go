package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// settleAll sweeps until nothing is left to settle. At no time is the list of what is left longer than what a few
// transactions do.
func (s flowStore) settleAll() {
	s.t.Helper()
	for s.number("select count(*) from dibs_ended_list") > 0 {
		if n := s.number("select coalesce(sum(json_array_length(ids)), 0) from dibs_ended_list"); n > 2_000 {
			s.t.Errorf("%d ids are left", n)
		}
		_, err := s.Sweep(s.t.Context())
		s.must(err)
	}
	if found, err := s.Check(s.t.Context()); err != nil || len(found) != 0 {
		s.t.Error(found, err)
	}
}

// dieAlone has the next job die in a transaction of the caller's, after which nobody settles the rest until the
// transaction's Wake is called. It also returns how many jobs the transaction has cancelled.
func (s flowStore) dieAlone() (did dibs.Tx, cancelled int) {
	s.t.Helper()
	jobs, err := s.Claim(s.t.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
	s.must(err)
	tx, err := s.DB().BeginTx(s.t.Context(), nil)
	s.must(err)
	defer tx.Rollback() //nolint:errcheck // after a commit it has nothing to do
	did = s.SQLTx(tx)
	s.must(did.Finish(s.t.Context(), []dibs.Outcome{jobs[0].Lease().Die("x")}))
	s.must(tx.QueryRow("select count(*) from dibs_finished where state = 'cancelled'").Scan(&cancelled))
	s.must(tx.Commit())
	return did, cancelled
}

// The end of a job with many followers settles some of them, and later transactions the rest; what is done leaves the list.
func TestSettlementsAreBounded(t *testing.T) {
	eachFlowStore(t, func(s flowStore) {
		head, other := plainJob(), plainJob()
		head.Ref, other.Ref = "p", "q"
		jobs := []dibs.NewJob{head, other}
		for range 4_000 {
			jobs = append(jobs, after("p", "q"))
		}
		s.cancelsInSteps(jobs, 500)
	})
}

// cancelsInSteps has the first of the jobs die, which cancels all that come after it: at most so many in one transaction.
func (s flowStore) cancelsInSteps(jobs []dibs.NewJob, most int) {
	s.t.Helper()
	followers := 0
	for _, j := range jobs {
		if len(j.After) > 0 {
			followers++
		}
	}
	s.enqueue(jobs...)
	if _, n := s.dieAlone(); n > most {
		s.t.Errorf("one transaction has cancelled %d jobs", n)
	}
	s.settleAll()
	if n := s.number("select count(*) from dibs_finished where cause = 1"); n != followers {
		s.t.Errorf("%d jobs are cancelled, want %d", n, followers)
	}
}

// A store that is closed in the middle of a settlement leaves the rest to the next one on the file.
func TestClosedStoreLeavesSettlements(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := flowStore{db, t}
	head := plainJob()
	head.Ref = "p"
	jobs := []dibs.NewJob{head}
	for range 1_000 {
		jobs = append(jobs, after("p"))
	}
	s.enqueue(jobs...)
	died, cancelled := s.dieAlone()
	held, err := s.DB().BeginTx(t.Context(), nil)
	s.must(err)
	died.Wake() // has the store settle, which waits for the transaction
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	for err == nil { // Close closes the writer last; calls fail from then on
		_, err = s.Get(t.Context(), 1)
		time.Sleep(time.Millisecond)
	}
	s.must(held.Rollback())
	s.must(<-closed)
	again := flowStore{openAt(t, path, sqlite.Options{}), t}
	caused := func() int { return again.number("select count(*) from dibs_finished where cause = 1") }
	if n := caused(); n != cancelled {
		t.Errorf("%d jobs are cancelled, %d before the store was closed", n, cancelled)
	}
	again.settleAll()
	if n := caused(); n != len(jobs)-1 {
		t.Errorf("%d jobs are cancelled, want %d", n, len(jobs)-1)
	}
}

// The cascade down a long chain, of which each level has one job, is settled in steps, too.
func TestSettlementsOfChainsAreBounded(t *testing.T) {
	eachFlowStore(t, func(s flowStore) {
		head := plainJob()
		head.Ref = "0"
		jobs := []dibs.NewJob{head}
		for i := range 400 {
			j := after(fmt.Sprint(i))
			j.Ref = fmt.Sprint(i + 1)
			jobs = append(jobs, j)
		}
		s.cancelsInSteps(jobs, 100)
	})
}

// A repair deletes the edges of a job that is gone, and the jobs before it are kept no longer.
func TestRepairDropsEdgesOfJobsThatAreGone(t *testing.T) {
	eachFlowStore(t, func(s flowStore) {
		head := plainJob()
		head.Ref = "p"
		s.enqueue(head)
		_, err := s.DB().Exec("insert into dibs_edge (child, parent, need, stage) values (2, 1, 'completed', 1)")
		s.must(err)
		_, err = s.DB().Exec("update dibs_job set followed = 1")
		s.must(err)
		s.end(false)
		_, err = s.Sweep(t.Context())
		s.must(err)
		found, err := s.Repair(t.Context())
		s.must(err)
		if want := "job 2: its edges are left, and it is gone"; !slices.Contains(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
		if n := s.number("select (select count(*) from dibs_edge) + (select count(*) from dibs_finished where followed)"); n != 0 {
			t.Error("edges are left, or a job is kept for them")
		}
		if found, err = s.Check(t.Context()); err != nil || len(found) != 0 {
			t.Error(found, err)
		}
	})
}
