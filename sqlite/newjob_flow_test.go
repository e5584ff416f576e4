package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/sqlite"
)

// A job that the view has come after others that have ended is released or cancelled by the next sweep, which deletes
// none of the others before.
func TestNewJobComesAfterJobsThatHaveEnded(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	short := time.Microsecond
	if _, err := s.ChangeQueue(t.Context(), "q", dibs.QueueChange{KeepCompleted: &short, KeepDead: &short}.Apply); err != nil {
		t.Fatal(err)
	}
	insert := func(after string) (id int64) {
		t.Helper()
		if _, err := s.DB().ExecContext(t.Context(), "insert into dibs_new_job (queue, after) values ('q', ?)", after); err != nil {
			t.Fatal(err)
		}
		if err := s.DB().QueryRowContext(t.Context(), "select id from dibs_enqueued").Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	completed, dead, running := insert(""), insert("[]"), insert("")
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 3, Lease: time.Hour})
	if err != nil || len(jobs) != 3 {
		t.Fatal(jobs, err)
	}
	if err := s.Finish(t.Context(), []dibs.Outcome{jobs[0].Lease().Complete(nil), jobs[1].Lease().Die("e")}); err != nil {
		t.Fatal(err)
	}
	want := map[int64]dibs.State{
		insert(fmt.Sprintf(`[%d]`, completed)):                                   dibs.Waiting,
		insert(fmt.Sprintf(`[%d]`, dead)):                                        dibs.Cancelled,
		insert(fmt.Sprintf(`[{"id":%d,"on":"failed"}, %d]`, dead, completed)):    dibs.Waiting,
		insert(fmt.Sprintf(`[{"id":%d,"on":"ended"}, %d]`, dead, completed)):     dibs.Waiting,
		insert(fmt.Sprintf(`[%d, {"id":%d}]`, completed, running)):               dibs.Blocked,
		insert(fmt.Sprintf(`[{"on":"ended","id":%d}, %[1]d]`, running)):          dibs.Blocked,
		insert(fmt.Sprintf(`[{"id":%d,"on":"failed"}, %d]`, completed, running)): dibs.Cancelled,
	}
	for range 2 {
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for id, state := range want {
		if j, err := s.Get(t.Context(), id); err != nil || j.State != state {
			t.Errorf("job %d is %v, %v; want %s", id, j, err, state)
		}
	}
	if err := s.Finish(t.Context(), []dibs.Outcome{jobs[2].Lease().Complete(nil)}); err != nil {
		t.Fatal(err)
	}
	for id, state := range want {
		if j, err := s.Get(t.Context(), id); state == dibs.Blocked && (err != nil || j.State != dibs.Waiting) {
			t.Errorf("job %d is %v, %v after the last end; want waiting", id, j, err)
		}
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("the check found %q, %v", found, err)
	}
}

// A job that is left out, as an ended job holds its key, does not have the jobs before that one kept.
func TestNewJobThatIsLeftOutKeepsNoEndedJob(t *testing.T) {
	t.Parallel()
	s := openStore(t, sqlite.Options{})
	claimed := func() dibs.Lease {
		t.Helper()
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1, Lease: time.Hour})
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		return jobs[0].Lease()
	}
	first, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k"}})
	if err != nil {
		t.Fatal(err)
	}
	keyed := dibs.NewJob{Queue: "q", Kind: "k", UniqueKey: "u", UniqueFor: time.Hour, After: []dibs.Dep{{ID: first[0].ID}}}
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{keyed}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Finish(t.Context(), []dibs.Outcome{claimed().Complete(nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.DB().ExecContext(t.Context(), `insert into dibs_new_job (queue, unique_key, unique_for, after) values ('q', 'u', 3600, '[1]')`); err != nil {
		t.Fatal(err)
	}
	if gone, err := s.DeleteEnded(t.Context(), []int64{first[0].ID}, time.Time{}); err != nil || len(gone) != 1 {
		t.Errorf("deleted are %v, %v: want the job that nothing comes after any more", gone, err)
	}
}
