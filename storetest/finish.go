package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

var finishCases = []oneCase{
	{"completed ends the job and keeps the result", finishCompleted},
	{"retry puts the job off and keeps the error", finishRetry},
	{"snooze puts the job off without counting the attempt", finishSnooze},
	{"release gives the job back in its old place without counting the attempt", finishRelease},
	{"dead ends the job whatever attempts are left", finishDead},
	{"cancelled ends the job", finishCancelled},
	{"what becomes of a job follows one table", outcomesTable},
	{"one call takes outcomes of every ending, token and queue", finishMixed},
	{"results and errors of one call go to their jobs, however long they are together", finishLong},
	{"the largest batch is taken whole by every verb", finishLargest},
	{"a result may have exactly the limit", resultLimit},
	{"the error history keeps the last ten", errorsKept},
	{"an error text that goes with no failure is left out", errorWithoutFailure},
	{"an error text is cut at a character to 4 KiB", errorCut},
	{"an error text may hold any bytes", errorBytes},
	{"without retention a finished job is gone at once", nothingKept},
}

func (t *test) runningJob() *dibs.RawJob {
	t.Helper()
	t.enqueue(dibs.NewJob{Kind: "k", Payload: 1})
	return t.claimOne(dibs.ClaimRequest{})
}

// Requirement 4: completion time. Requirement 1: the row survives, marked successful.
func finishCompleted(t *test) {
	j := t.runningJob()
	t.finish(j.Lease().Complete(json.RawMessage(`{"sum": 3}`)))
	got := t.get(j.ID)
	equal(t, "state, attempt, worker, token", []any{got.State, got.Attempt, got.Worker, got.Token}, []any{dibs.Completed, 1, "w", dibs.Token{}})
	if !jsonEqual(t, got.Result, json.RawMessage(`{"sum":3}`)) {
		t.Fatalf("result: got %s", got.Result)
	}
	if got.FinishedAt.Before(got.ClaimedAt) || got.ClaimedAt.Before(got.CreatedAt) {
		t.Fatalf("created %v, claimed %v, finished %v", got.CreatedAt, got.ClaimedAt, got.FinishedAt)
	}
	equal(t, "errors", len(got.Errors), 0)
	equal(t, "claimed_at", got.ClaimedAt, j.ClaimedAt)
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 1})), nil)
}

func finishRetry(t *test) {
	j := t.runningJob()
	t.finish(j.Lease().RetryAfter(time.Hour, "no answer"))
	got := t.get(j.ID)
	equal(t, "state, attempt, excused, token", []any{got.State, got.Attempt, got.Excused, got.Token}, []any{dibs.Waiting, 1, 0, dibs.Token{}})
	equal(t, "errors", len(got.Errors), 1)
	e := got.Errors[0]
	equal(t, "attempt, worker, error", []any{e.Attempt, e.Worker, e.Error}, []any{1, "w", "no answer"})
	near(t, "delay", got.RunAt.Sub(e.At), time.Hour)
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 1})), nil)
}

// Requirement 5: put a message off from inside its handler.
func finishSnooze(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 1})
	var j *dibs.RawJob
	for attempt := 1; attempt <= 4; attempt++ {
		j = t.claimSoon(dibs.ClaimRequest{}, 1)[0]
		equal(t, "attempt and excused", []int{j.Attempt, j.Excused}, []int{attempt, attempt - 1})
		t.finish(j.Lease().Snooze(10 * time.Millisecond))
		got := t.get(j.ID)
		equal(t, "state, excused, errors", []any{got.State, got.Excused, len(got.Errors)}, []any{dibs.Waiting, attempt, 0})
	}
	last := t.claimSoon(dibs.ClaimRequest{}, 1)[0]
	t.finish(last.Lease().Snooze(time.Hour))
	got := t.get(j.ID)
	if d := got.RunAt.Sub(last.ClaimedAt); d < time.Hour || d > time.Hour+patience {
		t.Fatalf("snoozed for %v, want an hour", d)
	}
}

// Requirement 4: re-queue an item after an external problem.
func finishRelease(t *test) {
	all := t.enqueue(copies(4, dibs.NewJob{Kind: "k", MaxAttempts: 1})...)
	for attempt := 1; attempt <= 3; attempt++ {
		jobs := t.claim(dibs.ClaimRequest{N: 2})
		sameIDs(t, "claimed", ids(jobs), all[:2])
		equal(t, "attempt and excused", []int{jobs[0].Attempt, jobs[0].Excused}, []int{attempt, attempt - 1})
		t.finish(jobs[1].Lease().Release(), jobs[0].Lease().Release())
		got := t.get(all[0])
		equal(t, "state, errors, run_at", []any{got.State, len(got.Errors), got.RunAt}, []any{dibs.Waiting, 0, jobs[0].RunAt})
	}
	sameIDs(t, "claimed", ids(t.claim(dibs.ClaimRequest{N: 4})), all)
}

func finishDead(t *test) {
	j := t.runningJob()
	t.finish(j.Lease().Die("no such customer"))
	got := t.get(j.ID)
	equal(t, "state, attempt, errors", []any{got.State, got.Attempt, len(got.Errors)}, []any{dibs.Dead, 1, 1})
	equal(t, "error", got.Errors[0].Error, "no such customer")
	if got.FinishedAt.IsZero() {
		t.Fatal("finished_at is missing")
	}
}

func finishCancelled(t *test) {
	j := t.runningJob()
	t.finish(j.Lease().Cancel("told to stop"))
	got := t.get(j.ID)
	equal(t, "state, errors", []any{got.State, len(got.Errors)}, []any{dibs.Cancelled, 1})
	equal(t, "error", got.Errors[0].Error, "told to stop")
	if got.FinishedAt.IsZero() {
		t.Fatal("finished_at is missing")
	}
}

// Requirement 1: Finish takes many outcomes, each fenced by its own token.
func finishMixed(t *test) {
	const n = 42
	for i := range n {
		t.enqueue(dibs.NewJob{Queue: fmt.Sprintf("q%d", i%2), Kind: "k"})
	}
	var jobs []*dibs.RawJob
	for i := range 6 {
		jobs = append(jobs, t.claim(dibs.ClaimRequest{Queue: fmt.Sprintf("q%d", i%2), N: 7})...)
	}
	equal(t, "claimed jobs", len(jobs), n)
	t.random().Shuffle(n, func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	var batch []dibs.Outcome
	for i, j := range jobs {
		o := endings(j.Lease())[i%7]
		if o.Error != "" {
			o.Error = fmt.Sprintf("error of %d", j.ID)
		}
		if o.Result != nil {
			o.Result = fmt.Appendf(nil, "%d", j.ID)
		}
		batch = append(batch, o)
	}
	t.finish(batch...)
	want := []dibs.State{dibs.Completed, dibs.Waiting, dibs.Waiting, dibs.Waiting, dibs.Waiting, dibs.Dead, dibs.Cancelled}
	for i, o := range batch {
		got := t.get(o.ID)
		equal(t, fmt.Sprintf("state after %s", o.Ending), got.State, want[i%7])
		if o.Error != "" {
			equal(t, "error", got.Errors[0].Error, o.Error)
		}
		if o.Result != nil {
			equal(t, "result", string(got.Result), string(o.Result))
		}
	}
}

func finishLong(t *test) {
	const n = 200
	all := t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: n})
	sameIDs(t, "claimed", ids(jobs), all)
	long := func(id int64, length int) string { // quotes, escapes and signs of several bytes
		return strings.Repeat(fmt.Sprintf(`%d "\\u0000" <ä&🜨> `, id), length/24)
	}
	lengths := []int{24, dibs.MaxErrorText / 2, 48, 10 * dibs.MaxErrorText, 72}
	var batch []dibs.Outcome
	for i, j := range jobs {
		text := long(j.ID, lengths[i%len(lengths)])
		result, err := json.Marshal(text)
		t.must(err)
		o := []dibs.Outcome{j.Lease().Complete(result), j.Lease().Complete(nil), j.Lease().Retry(text), j.Lease().Die(text)}[i%4]
		batch = append(batch, o)
	}
	t.finish(batch...)
	for i, j := range jobs {
		got, text := t.get(j.ID), long(j.ID, lengths[i%len(lengths)])
		equal(t, "state", got.State, []dibs.State{dibs.Completed, dibs.Completed, dibs.Waiting, dibs.Dead}[i%4])
		switch i % 4 {
		case 0:
			var result string
			t.must(json.Unmarshal(got.Result, &result))
			equal(t, "result", result, text)
		case 1:
			equal(t, "result", string(got.Result), "")
		default:
			equal(t, "errors", len(got.Errors), 1)
			equal(t, "error", got.Errors[0].Error, checks.ErrorText(text))
		}
	}
}

func finishLargest(t *test) {
	all := t.enqueue(copies(dibs.MaxBatch, dibs.NewJob{Kind: "k"})...)
	if !slices.IsSorted(all) {
		t.Fatal("ids do not grow")
	}
	jobs := t.claim(dibs.ClaimRequest{N: dibs.MaxBatch})
	sameIDs(t, "claimed", ids(jobs), all)
	t.extendAll(time.Hour, leases(jobs)...)
	t.finish(outcomes(jobs, completed)...)
	equal(t, "completed", t.stats(dibs.DefaultQueue).Completed, int64(dibs.MaxBatch))
}

func resultLimit(t *test) {
	j := t.runningJob()
	largest := json.RawMessage(`"` + strings.Repeat("r", dibs.MaxResult-2) + `"`)
	t.expectUnchanged(j.ID, func() {
		err := t.db.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(append(largest, ' '))})
		invalid(t, err, "outcomes[0].result")
		err = t.db.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nested(dibs.MaxDepth + 1))})
		invalid(t, err, "outcomes[0].result")
	})
	t.finish(j.Lease().Complete(largest))
	if got := t.get(j.ID).Result; string(got) != string(largest) {
		t.Fatalf("a result of %d bytes came back with %d bytes, or changed", len(largest), len(got))
	}
	results := []json.RawMessage{nil, json.RawMessage(`"short"`), append(largest[:50_000:50_000], '"'), json.RawMessage(`{"after":"a long one"}`)}
	t.enqueue(copies(len(results), dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: len(results)})
	list := outcomes(jobs, completed)
	for i := range list {
		list[i].Result = results[i]
	}
	t.finish(list...)
	for i, j := range jobs {
		if got := t.get(j.ID).Result; string(got) != string(results[i]) {
			t.Errorf("result %d of one call: %d bytes came back with %d bytes, or changed", i, len(results[i]), len(got))
		}
	}
}

// Requirement 4: dead with its error history.
func errorsKept(t *test) {
	const attempts = 13
	id := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: attempts})[0]
	var claimed []*dibs.RawJob
	for i := 1; i <= attempts; i++ {
		j := t.claimOne(dibs.ClaimRequest{Worker: fmt.Sprintf("w%d", i)})
		claimed = append(claimed, j)
		equal(t, "last attempt", j.LastAttempt(), i == attempts)
		t.finish(j.Lease().RetryAfter(0, fmt.Sprintf("error %d", i)))
	}
	got := t.get(id)
	equal(t, "state, errors", []any{got.State, len(got.Errors)}, []any{dibs.Dead, dibs.MaxErrors})
	for i, e := range got.Errors {
		n := attempts - dibs.MaxErrors + 1 + i
		equal(t, "entry", []any{e.Attempt, e.Worker, e.Error}, []any{n, fmt.Sprintf("w%d", n), fmt.Sprintf("error %d", n)})
		t.attemptOf(e, claimed[n-1])
		if i > 0 && e.At.Before(got.Errors[i-1].At) {
			t.Fatalf("times of the errors do not grow: %v", got.Errors)
		}
	}
}

// attemptOf checks that an error tells when its attempt was planned, claimed and over.
func (t *test) attemptOf(e dibs.AttemptError, claimed *dibs.RawJob) {
	t.Helper()
	equal(t, "attempt, run_at and claimed_at of an error", []any{e.Attempt, e.RunAt, e.ClaimedAt}, []any{claimed.Attempt, claimed.RunAt, claimed.ClaimedAt})
	if e.At.Before(e.ClaimedAt) {
		t.Fatalf("an attempt that was claimed at %v ended at %v", e.ClaimedAt, e.At)
	}
}

func errorWithoutFailure(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	claimed := t.claim(dibs.ClaimRequest{N: 3})
	done := []dibs.Outcome{claimed[0].Lease().Complete(nil), claimed[1].Lease().Snooze(time.Hour), claimed[2].Lease().Release()}
	for i := range done {
		done[i].Error = "e"
	}
	t.finish(done...)
	for _, id := range all {
		equal(t, "errors", len(t.get(id).Errors), 0)
	}
}

func errorCut(t *test) {
	t.retryLate(dibs.DefaultQueue) // a job that failed would be claimed again
	for _, long := range []string{strings.Repeat("é", dibs.MaxErrorText), "x" + strings.Repeat("🙂", dibs.MaxErrorText)} {
		for _, end := range []func(dibs.Lease, string) dibs.Outcome{dibs.Lease.Retry, dibs.Lease.Die, dibs.Lease.Cancel} {
			j := t.runningJob()
			t.finish(end(j.Lease(), long))
			got := t.get(j.ID).Errors[0].Error
			if len(got) > dibs.MaxErrorText || len(got) < dibs.MaxErrorText-20 || !utf8.ValidString(got) || !strings.HasPrefix(got, long[:4000]) {
				t.Fatalf("error of %d bytes was kept as %d bytes, valid %v: %.40q", len(long), len(got), utf8.ValidString(got), got)
			}
		}
	}
	longest := strings.Repeat("w", dibs.MaxErrorText)
	j := t.runningJob()
	t.finish(j.Lease().Die(longest))
	equal(t, "error of exactly the limit", t.get(j.ID).Errors[0].Error, longest)
}

func errorBytes(t *test) {
	j := t.runningJob()
	t.finish(j.Lease().Die("a\x00b\xffc\td\n\"'\\e"))
	equal(t, "error", t.get(j.ID).Errors[0].Error, "a\uFFFDb\uFFFDc\td\n\"'\\e")
}

// Requirement 1: retention by option.
func nothingKept(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{
		KeepCompleted: new(time.Duration), KeepDead: new(time.Duration), KeepCancelled: new(time.Duration),
	})
	t.enqueue(copies(3, dibs.NewJob{Kind: "k", MaxAttempts: 1})...)
	jobs := t.claim(dibs.ClaimRequest{N: 3})
	t.finish(jobs[0].Lease().Complete([]byte("1")), jobs[1].Lease().Die("e"), jobs[2].Lease().Retry("e"))
	waiting := t.enqueue(dibs.NewJob{Kind: "k"})
	t.cancel(waiting[0])
	for _, id := range append(ids(jobs), waiting[0]) {
		t.expectGone(id)
	}
	s := t.stats(dibs.DefaultQueue)
	equal(t, "counts", []int64{s.Waiting, s.Running, s.Completed, s.Dead, s.Cancelled}, make([]int64, 5))
}
