package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/needs"
)

// answers makes a batch of calls and returns the answer and error of each.
func answers[Q, A any](ctx context.Context, do func(context.Context, []Q, func(int, A, error)), calls []Q) ([]A, []error) {
	values, errs := make([]A, len(calls)), make([]error, len(calls))
	for i := range errs {
		errs[i] = errors.New("no answer")
	}
	var mu sync.Mutex
	do(ctx, calls, func(i int, a A, err error) {
		mu.Lock()
		defer mu.Unlock()
		values[i], errs[i] = a, err
	})
	return values, errs
}

// mergeStore is a store with n running jobs of one claim.
func mergeStore(t *testing.T, n int) (*Store, []*dibs.RawJob) {
	t.Helper()
	s := footprintStore(t)
	if _, err := s.Enqueue(t.Context(), jobsOf("m", "", n)); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "m", Worker: "w", N: n, Lease: time.Hour})
	if err != nil || len(jobs) != n {
		t.Fatal(len(jobs), err)
	}
	return s, jobs
}

// hold locks a job's row in another transaction until release is called.
func hold(t *testing.T, s *Store, id int64) (release func()) {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), fmt.Sprintf("select from %s.job where id = $1 for no key update", s.o.schema()), id); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

func complete(jobs ...*dibs.RawJob) (list []dibs.Outcome) {
	for _, j := range jobs {
		list = append(list, j.Lease().Complete(nil))
	}
	return list
}

func TestMergedOutcomesAreAnsweredApart(t *testing.T) {
	t.Parallel()
	for _, locked := range []bool{false, true} {
		t.Run(fmt.Sprintf("locked=%v", locked), func(t *testing.T) {
			s, jobs := mergeStore(t, 6)
			stale := complete(jobs[3])
			stale[0].Token[0]++
			if locked {
				defer hold(t, s, jobs[5].ID)()
			}
			_, errs := answers(t.Context(), s.merged.finishes.Make, [][]dibs.Outcome{
				complete(jobs[0]), complete(jobs[1], jobs[2]), stale, complete(jobs[0]), complete(jobs[5]),
			})
			var lost *dibs.FinishError
			if errs[1] != nil || !errors.As(errs[2], &lost) || !slices.Equal(lost.Lost, []int64{jobs[3].ID}) {
				t.Errorf("the good call was told %v, the stale one %v", errs[1], errs[2])
			}
			if one := errs[0] == nil; one == (errs[3] == nil) || !one && !errors.Is(errs[0], dibs.ErrLeaseLost) {
				t.Errorf("of two outcomes for one job, the first was told %v, the second %v", errs[0], errs[3])
			}
			var unwritten *dibs.FinishError
			if errors.As(errs[4], &unwritten) != locked || locked && len(unwritten.Unwritten) != 1 || !locked && errs[4] != nil {
				t.Errorf("the outcome of the last job was told %v", errs[4])
			}
		})
	}
}

// The second attempt to write an outcome, in a merged Finish, has no answer. The others are written.
func TestWhatIsNotWrittenIsToldToItsCallsAlone(t *testing.T) {
	t.Parallel()
	list := func(ids ...int64) (list []dibs.Outcome) {
		for _, id := range ids {
			list = append(list, dibs.Outcome{ID: id})
		}
		return list
	}
	cause := errors.New("the connection is broken")
	for _, err := range []error{
		&dibs.FinishError{Err: cause, Unwritten: []int64{1, 2}, Lost: []int64{3, 4}},
		fmt.Errorf("finish: %w", &dibs.FinishError{Err: cause, Unwritten: []int64{1, 2}, Lost: []int64{3, 4}}),
	} {
		for call, want := range map[int64]error{
			1: &dibs.FinishError{Err: cause, Unwritten: []int64{1}},
			3: &dibs.FinishError{Lost: []int64{3}},
			5: nil,
		} {
			if got := finishErrorOf(list(call), err); !reflect.DeepEqual(got, want) {
				t.Errorf("the call with job %d was told %v, want %v", call, got, want)
			}
		}
	}
	if got := finishErrorOf(list(5), cause); !errors.Is(got, cause) {
		t.Errorf("a call was told %v, want %v", got, cause)
	}
}

// PostgreSQL takes messages of up to 1 GB.
func TestMergedEnqueuesFitIntoAMessage(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, mergeBytes - 1, dibs.MaxPayload, dibs.MaxPayloadLimit} {
		size := batch{rows: []checks.Row{{Payload: make([]byte, n)}}}.size()
		if merged := max(1, maxMerged/size); merged*n > 1<<29 {
			t.Errorf("%d payloads of %d bytes go together", merged, n)
		}
	}
}

func TestMergedLeasesAreAnsweredApart(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	s, jobs := mergeStore(t, 4)
	release := hold(t, s, jobs[3].ID)
	time.AfterFunc(100*time.Millisecond, release)
	stale := jobs[1].Lease()
	stale.Token[0]++
	calls := []extension{
		{[]dibs.Lease{jobs[0].Lease()}, time.Minute},
		{[]dibs.Lease{stale, jobs[2].Lease()}, time.Minute},
		{[]dibs.Lease{jobs[0].Lease()}, time.Hour}, // another length of lease for a job of the first call
		{[]dibs.Lease{jobs[3].Lease()}, time.Minute},
	}
	got, errs := answers(t.Context(), s.merged.extends.Make, calls)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i, e := range got {
		want := []int64(nil)
		if i == 1 {
			want = []int64{jobs[1].ID}
		}
		if !slices.Equal(e.Lost, want) || e.Cancelled != nil || e.Finishing != nil {
			t.Errorf("call %d was told %+v, want %v lost", i, e, want)
		}
	}
	for i, least := range []time.Duration{time.Minute, 0, time.Minute, time.Minute} {
		j, err := s.Get(t.Context(), jobs[i].ID)
		if err != nil || least > 0 && time.Until(j.LeaseUntil) < least/2 {
			t.Errorf("the lease of job %d ends at %v, %v", i, j.LeaseUntil, err)
		}
	}
}

// A call that the server refuses or stops does not fail the calls merged with it.
func TestMergedJobsAreAnsweredApart(t *testing.T) {
	t.Parallel()
	for _, refused := range []string{
		"alter table SCHEMA.job add check (kind <> 'refused')",
		`create function SCHEMA.stop() returns trigger language plpgsql as $$ begin
			raise query_canceled; end $$;
		create trigger stop before insert on SCHEMA.job for each row when (new.kind = 'refused') execute function SCHEMA.stop()`,
	} {
		mergedApart(t, refused)
	}
}

func mergedApart(t *testing.T, refused string) {
	t.Helper()
	s, _ := mergeStore(t, 1)
	if _, err := s.pool.Exec(t.Context(), strings.ReplaceAll(refused, "SCHEMA", s.o.schema())); err != nil {
		t.Fatal(err)
	}
	var calls []batch
	for _, kind := range []string{"good", "refused", "good"} {
		jobs := jobsOf("m", "", 2)
		jobs[1].Kind = kind
		b, err := s.newBatch(t.Context(), rowsOf(t, jobs), true)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, b)
	}
	got, errs := answers(t.Context(), s.merged.enqueues.Make, calls)
	if errs[0] != nil || errs[1] == nil || errs[2] != nil || len(got[0]) != 2 || len(got[2]) != 2 {
		t.Errorf("answered %v, %v", got, errs)
	}
	if q, err := s.Stats(t.Context()); err != nil || q[slices.IndexFunc(q, func(q admin.QueueStats) bool { return q.Queue == "m" })].Waiting != 4 {
		t.Errorf("counted %+v, %v", q, err)
	}
}

// The first of merged claims gets the best jobs; the last may get none.
func TestMergedClaimsShareWhatIsThere(t *testing.T) {
	t.Parallel()
	s, _ := mergeStore(t, 1)
	done, err := s.Enqueue(t.Context(), jobsOf("m", "", 4))
	if err != nil {
		t.Fatal(err)
	}
	calls := make([]dibs.ClaimRequest, 3)
	for i := range calls {
		calls[i] = dibs.ClaimRequest{Queue: "m", Worker: "w", N: 3}
	}
	got, errs := answers(t.Context(), s.claimMerged, calls)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if len(got[0]) != 3 || len(got[1]) != 1 || len(got[2]) != 0 || got[0][0].ID != done[0].ID || got[1][0].ID != done[3].ID {
		t.Errorf("the claims were given %v", got)
	}
	s.giveBack(calls[1], got[1])
	if j, err := s.Get(t.Context(), done[3].ID); err != nil || j.State != dibs.Waiting || j.Attempt != j.Excused {
		t.Errorf("a job whose claimer was gone: %+v, %v", j, err)
	}
}

// A call may come to the pool just after Close has closed it.
func TestAClosedPoolIsAClosedStore(t *testing.T) {
	t.Parallel()
	s := footprintStore(t)
	s.pool.Close()
	if _, err := s.Enqueue(t.Context(), jobsOf("m", "", 1)); !errors.Is(err, dibs.ErrClosed) {
		t.Errorf("Enqueue was told %v", err)
	}
	if _, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "m", Worker: "w", N: 1}); !errors.Is(err, dibs.ErrClosed) {
		t.Errorf("Claim was told %v", err)
	}
}
