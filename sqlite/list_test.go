package sqlite_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/sqlite"
)

// Lists that match few jobs end a page when they have looked at many. All pages together miss no job.
func TestListsLookAtABoundedNumberOfJobs(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "many", Kind: "k"}, {Queue: "more", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	const counted = "with recursive n (i) as (select 10 union all select i + 1 from n where i < 250009) "
	for _, text := range []string{
		"delete from dibs_job",
		counted + `insert into dibs_job (id, queue, kind, payload, priority, run_at, gate, max_attempts, created_at)
			select i, iif(i % 2, 'more', 'many'), iif(i in (10, 120000, 250009), 'rare', 'k'), '1', 255, 1, 0, 25, 1 from n`,
		counted + `insert into dibs_finished (id, queue, kind, state, finished_at, payload, priority, run_at, attempt, excused, max_attempts, cancel_requested, created_at)
			select i + 1000000, iif(i % 2, 'more', 'many'), iif(i in (10, 120000, 250009), 'rare', 'k'), 'completed', i / 3, '1', 255, 1, 1, 0, 25, 0, 1 from n`,
	} {
		if err := s.OnWriter(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name        string
		f           admin.Filter
		jobs, pages int
	}{
		{"a kind that there is not", admin.Filter{Kind: "nosuch"}, 0, 3},
		{"a rare kind", admin.Filter{Kind: "rare"}, 3, 3},
		{"a rare kind of one queue", admin.Filter{Queue: "more", Kind: "rare", State: dibs.Waiting}, 1, 3},
		{"an error that there is not", admin.Filter{Error: "nosuch"}, 0, 3},
		{"a payload that there is not", admin.Filter{Payload: "nosuch"}, 0, 26},
		{"a kind that no finished job has", admin.Filter{Kind: "nosuch", State: dibs.Completed}, 0, 3},
		{"a rare kind that is finished", admin.Filter{Kind: "rare", State: dibs.Completed}, 3, 3},
		{"a rare kind that is finished, of one queue", admin.Filter{Queue: "many", Kind: "rare", State: dibs.Completed}, 2, 2},
	} {
		pages := 0
		var got []int64
		for more := true; more; pages++ {
			p, err := s.List(t.Context(), c.f)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range p.Jobs {
				got = append(got, j.ID)
			}
			c.f.After, more = p.Next, p.Next != ""
		}
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != c.jobs || pages != c.pages {
			t.Errorf("%s: %d jobs on %d pages, want %d on %d", c.name, len(got), pages, c.jobs, c.pages)
		}
	}
	if _, err := s.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The database's time is ahead of the system's clock after that was set back. Lists go by the same time as claims.
func TestListsGoByTheTimeOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	_, err := s.Enqueue(t.Context(), []dibs.NewJob{{Kind: "k", UniqueKey: "a", UniqueFor: time.Minute}, {Kind: "k", Delay: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 1})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%v, %v", jobs, err)
	}
	if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil)}); err != nil {
		t.Fatal(err)
	}
	filters := []admin.Filter{{Queue: dibs.DefaultQueue, UniqueKey: "a"}, {State: dibs.Waiting, Scheduled: true}}
	for _, want := range []int{1, 0} {
		for _, f := range filters {
			if p, err := s.List(t.Context(), f); err != nil || len(p.Jobs) != want {
				t.Errorf("%+v lists %d jobs, want %d, %v", f, len(p.Jobs), want, err)
			}
		}
		if err := s.OnWriter(t.Context(), "update dibs_clock set now = now + 3600000000"); err != nil {
			t.Fatal(err)
		}
	}
}
