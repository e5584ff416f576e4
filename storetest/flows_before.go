package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// flowBeforeCases: a job reads what the jobs that it comes after have left.
var flowBeforeCases = []oneCase{
	{"a job reads the results of the jobs that it comes after, in the order of their ids", flowBefore},
	{"a worker's job reads 2,500 results in pages", flowBeforeMany},
	{"a callback reads the states of those that died and were cancelled", flowBeforeFailed},
	{"a job reads the result of one whose queue keeps none", flowBeforeUnkept},
	{"a blocked job shows jobs that have not ended", flowBeforeLive},
	{"pages pass over jobs that were deleted by hand", flowBeforeGone},
	{"bad pages are refused and name the field", flowBeforeBad},
}

func (t *test) before(id, after int64, n int) (jobs []*dibs.RawJob, next int64) {
	t.Helper()
	jobs, next, err := t.db.Before(t.ctx, id, after, n)
	t.must(err)
	return jobs, next
}

// completeWith completes jobs with their places as results.
func (t *test) completeWith(jobs []*dibs.RawJob) {
	t.Helper()
	all := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		all[i] = j.Lease().Complete(json.RawMessage(fmt.Sprint(i)))
	}
	t.finish(all...)
}

func flowBefore(t *test) {
	all := t.enqueue(append(copies(3, after(dibs.Ref("a"))), dibs.NewJob{Kind: "k"}, after(dibs.After("a")))...)
	jobs := t.claimExactly("all but the last", all[:4]...)
	t.completeWith(jobs)
	t.startsSoon("the last", all[4])
	got, next := t.before(all[4], 0, 1000)
	sameIDs(t, "before", ids(got), all[:3])
	equal(t, "next", next, int64(0))
	for i, j := range got {
		equal(t, "state, result", []any{j.State, string(j.Result)}, []any{dibs.Completed, fmt.Sprint(i)})
		equal(t, "the job", j, t.get(j.ID))
	}
	for _, id := range []int64{all[0], all[3], all[4] + 1000} {
		none, next := t.before(id, 0, 10)
		equal(t, "before a job that comes after none", []any{len(none), next}, []any{0, int64(0)})
	}
}

func flowBeforeMany(t *test) {
	const n = 2500
	all := t.enqueue(append(copies(n, after(dibs.Ref("a"))), after(dibs.After("a")))...)
	for done := 0; done < n; {
		jobs := t.claim(dibs.ClaimRequest{N: 1000})
		t.completeWith(jobs)
		done += len(jobs)
	}
	t.becomes(dibs.Waiting, all[n])
	var got []int64
	t.workSteps(func(ctx context.Context, job *dibs.Job[string]) error {
		for b, err := range job.Before(ctx) {
			if err != nil {
				return dibs.Die(err)
			}
			if string(b.Result) != fmt.Sprint(len(got)%1000) {
				return dibs.Die(fmt.Errorf("job %d has the result %s at %d", b.ID, b.Result, len(got)))
			}
			got = append(got, b.ID)
		}
		for _, err := range job.Before(ctx) { // a loop that ends early
			return err
		}
		return dibs.Die(fmt.Errorf("the second loop had no round"))
	}, all[n])
	sameIDs(t, "before", got, all[:n])
	t.inState(dibs.Completed, all[n])
	got = nil
	for next, pages := int64(0), 1; ; pages++ {
		page, following := t.before(all[n], next, 1000)
		got = append(got, ids(page)...)
		if next = following; next == 0 {
			equal(t, "pages", pages, 3)
			break
		}
	}
	sameIDs(t, "before, in pages of 1,000", got, all[:n])
}

func flowBeforeFailed(t *test) {
	all := t.enqueue(append(copies(3, after(dibs.Ref("a"))), after(dibs.Ref("b"), dibs.After("a")), after(dibs.AfterEnd("a", "b")))...)
	jobs := t.claimExactly("the first", all[:3]...)
	t.finish(jobs[0].Lease().Complete(json.RawMessage("7")), jobs[1].Lease().Die("out of paper"), jobs[2].Lease().Cancel("c"))
	t.startsSoon("the callback", all[4])
	got, _ := t.before(all[4], 0, 1000)
	sameIDs(t, "before", ids(got), all[:4])
	states := []dibs.State{dibs.Completed, dibs.Dead, dibs.Cancelled, dibs.Cancelled}
	for i, j := range got {
		equal(t, "state", j.State, states[i])
	}
	equal(t, "error", got[1].Errors[0].Error, "out of paper")
	if cause := got[3].Cause; cause != all[1] && cause != all[2] {
		t.Fatalf("job %d was cancelled because of %d", got[3].ID, cause)
	}
}

func flowBeforeUnkept(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{KeepCompleted: new(time.Duration)})
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.After("a")))
	t.finish(t.claimExactly("the first", all[0])[0].Lease().Complete(json.RawMessage(`"kept"`)))
	last := t.startsSoon("the last", all[1])
	t.sweep()
	got, _ := t.before(all[1], 0, 10)
	sameIDs(t, "before", ids(got), all[:1])
	equal(t, "result", string(got[0].Result), `"kept"`)
	t.complete(last...)
}

func flowBeforeLive(t *test) {
	all := t.enqueue(after(dibs.Ref("a")), after(dibs.Ref("b"), dibs.After("a")), after(dibs.After("b"), dibs.AfterEnd("a")))
	t.claimExactly("the first", all[0])
	got, _ := t.before(all[2], 0, 10)
	sameIDs(t, "before", ids(got), all[:2])
	equal(t, "states", []dibs.State{got[0].State, got[1].State}, []dibs.State{dibs.Running, dibs.Blocked})
	equal(t, "waits for", []int{got[0].WaitsFor, got[1].WaitsFor}, []int{0, 1})
}

func flowBeforeGone(t *test) {
	all := t.enqueue(append(copies(6, after(dibs.Ref("a"))), after(dibs.After("a")))...)
	t.completeWith(t.claimExactly("the first", all[:6]...))
	t.startsSoon("the last", all[6])
	gone := slices.Concat(all[1:4], all[5:6])
	t.runSQL("delete from %sfinished where id in (" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(gone)), ", "), "[]") + ")")
	t.repair(t.db)
	for _, page := range []struct {
		after, next int64
		jobs        []int64
	}{{0, all[1], all[:1]}, {all[1], all[3], nil}, {all[3], all[5], all[4:5]}, {all[5], 0, nil}} {
		got, next := t.before(all[6], page.after, 2)
		sameIDs(t, "a page of two", ids(got), page.jobs)
		equal(t, "next", next, page.next)
	}
}

func flowBeforeBad(t *test) {
	for _, c := range []struct {
		id, after int64
		n         int
		field     string
	}{{0, 0, 1, "id"}, {-1, 0, 1, "id"}, {1, -1, 1, "after"}, {1, 0, 0, "n"}, {1, 0, 1001, "n"}} {
		_, _, err := t.db.Before(t.ctx, c.id, c.after, c.n)
		invalid(t, err, c.field)
	}
}
