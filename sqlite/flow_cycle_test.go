package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// flowStore is a store with helpers for tests of flows.
type flowStore struct {
	*sqlite.Store
	t *testing.T
}

// eachFlowStore runs a test with a store of each mode.
func eachFlowStore(t *testing.T, f func(flowStore)) {
	t.Parallel()
	for _, mode := range []string{"plain", "concurrent"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, sqlite.Options{})
			if mode == "concurrent" {
				if err := concurrent(s); err != nil {
					t.Fatal(err)
				}
			}
			f(flowStore{s, t})
		})
	}
}

func (s flowStore) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s flowStore) enqueue(jobs ...dibs.NewJob) (ids []int64) {
	s.t.Helper()
	done, err := s.Enqueue(context.Background(), jobs)
	s.must(err)
	for _, e := range done {
		ids = append(ids, e.ID)
	}
	return ids
}

// end completes the next job, or has it die, and returns it; nil if there is none.
func (s flowStore) end(dies bool, add ...dibs.NewJob) *dibs.RawJob {
	s.t.Helper()
	jobs, err := s.Claim(context.Background(), dibs.ClaimRequest{Worker: "w", N: 1, Lease: time.Hour})
	s.must(err)
	if len(jobs) == 0 {
		return nil
	}
	o := jobs[0].Lease().Complete(nil)
	if dies {
		o = jobs[0].Lease().Die("x")
	}
	o.Add = add
	s.must(s.Finish(context.Background(), []dibs.Outcome{o}))
	return jobs[0]
}

// number reads a number by a query.
func (s flowStore) number(query string) (n int) {
	s.t.Helper()
	s.must(s.DB().QueryRow(query).Scan(&n))
	return n
}

// endAll completes all jobs, and fails the test if some never start.
func (s flowStore) endAll() {
	s.t.Helper()
	for s.end(false) != nil {
	}
	if n := s.number("select count(*) from dibs_job"); n != 0 {
		s.t.Errorf("%d jobs never start", n)
	}
	if found, err := s.Check(context.Background()); err != nil || len(found) != 0 {
		s.t.Error(found, err)
	}
}

func plainJob() dibs.NewJob { return dibs.NewJob{Kind: "k"} }

func after[T int64 | string](others ...T) dibs.NewJob {
	j := plainJob()
	dibs.After(others...)(&j)
	return j
}

// edges lists what a job comes after.
func (s flowStore) edges(child int64) string {
	s.t.Helper()
	var all string
	s.must(s.DB().QueryRow("select coalesce(group_concat(parent, ' '), '') from (select parent from dibs_edge where child = ? order by parent)", child).Scan(&all))
	return all
}

// Jobs that a job adds do not come to wait for those that follow it, while these wait for them.
func TestAddedJobsMakeNoCycle(t *testing.T) {
	eachFlowStore(t, func(s flowStore) {
		head := plainJob()
		head.Ref = "p"
		p := s.enqueue(head, after("p"), after("p"))
		far := s.enqueue(after(p[1]))[0]
		near := after(p[1])
		near.Ref = "near"
		// Job 9 comes after job 3, which comes after those that come after job 2.
		s.end(false, near, after("near"), after(far), plainJob(), after(p[2]))
		for id, want := range map[int64]string{p[1]: "1 8", p[2]: "1 8"} {
			if got := s.edges(id); got != want {
				t.Errorf("job %d comes after %s, want %s", id, got, want)
			}
		}
		s.endAll()
	})
}

// Two added jobs come after one of the followers each: only one of these can come after the other's.
func TestAddedJobsMakeNoCycleTogether(t *testing.T) {
	eachFlowStore(t, func(s flowStore) {
		head := plainJob()
		head.Ref = "p"
		p := s.enqueue(head, after("p"), after("p"))
		s.end(false, after(p[1]), after(p[2]))
		s.endAll()
	})
}

// A follower that has ended comes after none of the added jobs that come after it, so a requeue of both has them start.
func TestAddedJobsMakeNoCycleByRequeue(t *testing.T) {
	eachFlowStore(t, func(s flowStore) {
		head := plainJob()
		head.Ref = "p"
		ids := s.enqueue(head, after("p"))
		s.endAll()
		_, err := s.Requeue(t.Context(), ids[:1], time.Time{})
		s.must(err)
		s.end(false, after(ids[1]))
		last := s.end(false)
		_, err = s.Requeue(t.Context(), []int64{ids[1], last.ID}, time.Time{})
		s.must(err)
		s.endAll()
	})
}

// Added jobs that come after the job which adds them come neither after themselves nor after each other.
func TestAddedJobsInheritNothing(t *testing.T) {
	eachFlowStore(t, func(s flowStore) {
		head := plainJob()
		head.Ref = "p"
		p := s.enqueue(head, after("p"))
		s.end(false, after(p[0]), after(p[0]))
		for id, want := range map[int64]string{p[1]: "1 3 4", 3: "1", 4: "1"} {
			if got := s.edges(id); got != want {
				t.Errorf("job %d comes after %q, want %q", id, got, want)
			}
		}
		s.endAll()
	})
}
