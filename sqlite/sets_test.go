package sqlite_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/sqlite"
)

// Statements take rows in JSON. The largest numbers stay what they are in it, and results come back byte for byte.
func TestRowsInJSONKeepNumbersAndResults(t *testing.T) {
	t.Parallel()
	const last = 1<<53 - 7 // the schema allows ids up to 1<<53 - 1
	s := openStore(t, sqlite.Options{})
	if _, err := s.DB().ExecContext(t.Context(), "insert into sqlite_sequence (name, seq) values ('dibs_job', ?)", last); err != nil {
		t.Fatal(err)
	}
	var ids []int64
	added, err := s.Enqueue(t.Context(), newJobs(6))
	for _, e := range added {
		ids = append(ids, e.ID)
	}
	if err != nil || ids[0] != last+1 || ids[5] != last+6 {
		t.Fatal(ids, err)
	}
	same := func(what string, got, want []int64, err error) {
		t.Helper()
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: got %d, want %d: %v", what, got, want, err)
		}
	}
	far := time.Date(9000, 1, 2, 3, 4, 5, 123457000, time.UTC) // more microseconds than a float64 can hold
	got, err := s.Edit(t.Context(), ids, admin.Edit{RunAt: &far})
	same("edited", got, ids, err)
	if j, err := s.Get(t.Context(), ids[5]); err != nil || !j.RunAt.Equal(far) {
		t.Errorf("run_at is %v, want %v: %v", j.RunAt, far, err)
	}
	now := time.Unix(0, 0)
	got, err = s.Edit(t.Context(), ids, admin.Edit{RunAt: &now})
	same("edited again", got, ids, err)
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: 6, Lease: time.Minute})
	if err != nil || len(jobs) != 6 {
		t.Fatal(jobs, err)
	}
	if jobs, err = s.Resume(t.Context(), dibs.ClaimRequest{Worker: "w", Lease: time.Minute}); err != nil || len(jobs) != 6 {
		t.Fatal(jobs, err)
	}
	var leases []dibs.Lease
	for _, j := range jobs {
		leases = append(leases, j.Lease())
	}
	e, err := s.Extend(t.Context(), leases, time.Hour)
	same("lost", e.Lost, nil, err)
	result := "{ \"a\" : \"\\u0000\\ud800\u2028</>\" ,\n\t\"b\":1.50e0 }"
	err = s.Finish(t.Context(), []dibs.Outcome{
		leases[0].Complete([]byte(result)), leases[1].Complete(nil), leases[2].Die("e"), leases[3].RetryAfter(0, "e"), leases[4].Release(), leases[5].Cancel(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	if j, err := s.Get(t.Context(), ids[0]); err != nil || string(j.Result) != result {
		t.Errorf("the result is %q, want %q: %v", j.Result, result, err)
	}
	ended, _, err := s.Cancel(t.Context(), ids)
	same("cancelled", ended, ids[3:5], err)
	got, err = s.Requeue(t.Context(), ids[:5], time.Time{})
	same("requeued", got, []int64{ids[0], ids[1], ids[2], ids[3], ids[4]}, err)
	ended, _, err = s.Cancel(t.Context(), ids)
	same("cancelled again", ended, ids[:5], err)
	got, err = s.DeleteEnded(t.Context(), ids, time.Time{})
	same("deleted", got, ids, err)
}

// A sweep looks at many claims together, but not at more jobs than fit into memory, and at each claim again when the next
// of its leases ends.
func TestASweepTakesTheEndedLeasesOfManyClaims(t *testing.T) {
	t.Parallel()
	const claims, each = 6, 400
	s := openStore(t, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), newJobs(claims*each)); err != nil {
		t.Fatal(err)
	}
	var live []dibs.Lease
	for range claims {
		jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: each, Lease: time.Minute})
		if err != nil || len(jobs) != each {
			t.Fatal(len(jobs), err)
		}
		live = append(live, jobs[each-1].Lease())
	}
	live = live[:claims/2] // the other claims have no lease left
	if _, err := s.Extend(t.Context(), live, time.Hour); err != nil {
		t.Fatal(err)
	}
	past := "update dibs_job set lease_until = claimed_at + 1 where lease_until < claimed_at + 100000000; update dibs_claim set check_at = 1"
	if _, err := s.DB().ExecContext(t.Context(), past); err != nil {
		t.Fatal(err)
	}
	swept, err := s.Sweep(t.Context())
	if err != nil || swept.Expired != claims*each-len(live) {
		t.Fatal(swept, err)
	}
	if e, err := s.Extend(t.Context(), live, time.Hour); err != nil || len(e.Lost) > 0 {
		t.Error(e, err)
	}
	var left, due int
	row := s.DB().QueryRowContext(t.Context(), "select count(*), coalesce(sum(check_at < 1000000000000000), 0) from dibs_claim")
	if err := row.Scan(&left, &due); err != nil || left != len(live) || due > 0 {
		t.Errorf("%d claims are left, want %d, and %d of them are still due: %v", left, len(live), due, err)
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Worker: "w", N: claims * each})
	if err != nil || len(jobs) != claims*each-len(live) || len(jobs[0].Errors) != 1 {
		t.Errorf("%d jobs wait again: %v", len(jobs), err)
	}
}
