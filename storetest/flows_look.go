package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// The rows of a flow count its jobs by queue and kind, in the order of their first jobs, whatever state they are in.
func flowLook(t *test) {
	plain := t.enqueue(dibs.NewJob{Kind: "alone", Queue: "other"})[0]
	page := dibs.NewJob{Kind: "page", Ref: "page"}
	ids := t.enqueue(
		page, page, dibs.NewJob{Kind: "bind", After: []dibs.Dep{{Ref: "page"}}},
		dibs.NewJob{Kind: "clean", Queue: "other", After: []dibs.Dep{{Ref: "page", On: dibs.NeedEnded}}},
		dibs.NewJob{Kind: "mail", After: []dibs.Dep{{Ref: "page", On: dibs.NeedFailed}}},
	)
	first, bind, clean, mail := ids[0], ids[2], ids[3], ids[4]
	late := t.enqueue(dibs.NewJob{Kind: "late", After: []dibs.Dep{{ID: first}, {ID: plain}}})[0]

	f := t.flow(bind)
	equal(t, "flow, state and open jobs", f, admin.Flow{
		ID: bind, Flow: first, State: dibs.Blocked, Open: []int64{first, ids[1]},
		Needs:  []dibs.Need{dibs.NeedCompleted, dibs.NeedCompleted},
		Before: []admin.FlowRow{{Queue: dibs.DefaultQueue, Kind: "page", First: first, Waiting: 2}},
		After:  []admin.FlowRow{},
		All: []admin.FlowRow{
			{Queue: dibs.DefaultQueue, Kind: "page", First: first, Waiting: 2},
			{Queue: dibs.DefaultQueue, Kind: "bind", First: bind, Blocked: 1},
			{Queue: "other", Kind: "clean", First: clean, Blocked: 1},
			{Queue: dibs.DefaultQueue, Kind: "mail", First: mail, Blocked: 1},
		},
	})
	equal(t, "what the others need", [][]dibs.Need{t.flow(clean).Needs, t.flow(mail).Needs}, [][]dibs.Need{{dibs.NeedEnded, dibs.NeedEnded}, {dibs.NeedFailed, dibs.NeedFailed}})
	equal(t, "the flow of a job that was enqueued alone", t.flow(plain), admin.Flow{
		ID: plain, State: dibs.Waiting, Open: []int64{}, Needs: []dibs.Need{}, Before: []admin.FlowRow{}, All: []admin.FlowRow{},
		After: []admin.FlowRow{{Queue: dibs.DefaultQueue, Kind: "late", First: late, Blocked: 1}},
	})
	equal(t, "followers", []int{t.followers(dibs.DefaultQueue), t.followers("other"), t.followers("nosuch")}, []int{3, 1, 0})
	live, err := t.db.FlowJobs(t.ctx, first, "", 0)
	t.must(err)
	equal(t, "jobs of the flow", live, []int64{mail, clean, bind, ids[1], first})
	live, err = t.db.FlowJobs(t.ctx, first, "", clean)
	t.must(err)
	equal(t, "jobs of the flow below one", live, []int64{bind, ids[1], first})

	for _, j := range t.claimSoon(dibs.ClaimRequest{Kinds: []string{"page"}}, 2) { // as in flowRequeueLate
		t.must(t.db.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)}))
	}
	t.becomes(dibs.Cancelled, mail)
	t.becomes(dibs.Waiting, bind, clean)
	f = t.flow(first)
	equal(t, "rows after the ends", f.All, []admin.FlowRow{
		{Queue: dibs.DefaultQueue, Kind: "page", First: first, Completed: 2},
		{Queue: dibs.DefaultQueue, Kind: "bind", First: bind, Waiting: 1},
		{Queue: "other", Kind: "clean", First: clean, Waiting: 1},
		{Queue: dibs.DefaultQueue, Kind: "mail", First: mail, Unneeded: 1},
	})
	for state, want := range map[dibs.State][]int64{dibs.Completed: {ids[1], first}, dibs.Dead: nil, dibs.Cancelled: nil} { // nobody needs mail
		got, err := t.db.FlowJobs(t.ctx, first, state, 0)
		t.must(err)
		equal(t, "jobs of the flow that are "+string(state), append([]int64{}, got...), append([]int64{}, want...))
	}
	if _, err := t.db.FlowJobs(t.ctx, first, dibs.Waiting, 0); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("ended jobs that wait: %v", err)
	}
	equal(t, "jobs that come after the first, and those that did not complete", []int{len(f.After), len(f.Lost)}, []int{4, 0})
	equal(t, "jobs that the late one waits for", t.flow(late).Open, []int64{plain})
	if _, err := t.db.Flow(t.ctx, 1<<40, 0); !errors.Is(err, dibs.ErrNotFound) {
		t.Errorf("the flow of no job: %v", err)
	}
	if _, err := t.db.Followers(t.ctx, ""); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("followers of no queue: %v", err)
	}
	ended, _, err := t.db.Cancel(t.ctx, []int64{late})
	t.must(err)
	equal(t, "cancelled", ended, []int64{late})
}

// A count ends where the caller wants it to, but none of what has not ended or has died hides behind what is completed.
func flowUpTo(t *test) {
	page := dibs.NewJob{Kind: "page", Ref: "page"}
	jobs := append(copies(9, page),
		dibs.NewJob{Kind: "bind", Ref: "bind", After: []dibs.Dep{{Ref: "page", On: dibs.NeedEnded}}},
		dibs.NewJob{Kind: "sell", After: []dibs.Dep{{Ref: "page"}, {Ref: "bind"}}},
		dibs.NewJob{Kind: "tell", After: []dibs.Dep{{Ref: "page"}}})
	ids := t.enqueue(jobs...)
	equal(t, "rows of the flow, up to 4 of those that have not ended", t.flowUpTo(ids[0], 4).All, []admin.FlowRow{
		{Queue: dibs.DefaultQueue, Kind: "page", First: ids[0], Waiting: 2},
		{Queue: dibs.DefaultQueue, Kind: "sell", First: ids[10], Blocked: 1},
		{Queue: dibs.DefaultQueue, Kind: "tell", First: ids[11], Blocked: 1},
	})
	last := t.claim(dibs.ClaimRequest{N: 9, Kinds: []string{"page"}})
	for _, j := range last[:7] {
		t.finish(j.Lease().Complete(nil))
	}
	dead := last[7].ID
	t.finish(last[7].Lease().Die("no ink"))
	t.becomes(dibs.Cancelled, ids[10], ids[11])
	f := t.flowUpTo(ids[9], 3)
	if len(f.All) > 0 && slices.Contains(ids[:7], f.All[0].First) {
		f.All[0].First = ids[0] // any three of those that have completed are counted
	}
	equal(t, "rows of the flow, up to 3 of each end", f.All, []admin.FlowRow{
		{Queue: dibs.DefaultQueue, Kind: "page", First: ids[0], Running: 1, Completed: 3, Dead: 1},
		{Queue: dibs.DefaultQueue, Kind: "bind", First: ids[9], Blocked: 1},
		{Queue: dibs.DefaultQueue, Kind: "sell", First: ids[10], Cancelled: 1},
		{Queue: dibs.DefaultQueue, Kind: "tell", First: ids[11], Cancelled: 1},
	})
	equal(t, "the first that did not complete", f.Lost, []int64{dead, ids[10], ids[11]})
	for before, want := range map[int64][]int64{0: {ids[11], ids[10]}, ids[11]: {ids[10]}} {
		got, err := t.db.FlowJobs(t.ctx, ids[0], dibs.Cancelled, before)
		t.must(err)
		equal(t, fmt.Sprint("cancelled jobs of the flow below ", before), got, want)
	}
	equal(t, "3 of those before, and those that are waited for", []any{f.Before[0].Jobs(), f.Open}, []any{int64(3), []int64{last[8].ID}})
	equal(t, "2 of the 3 that come after", sumOf(t.flowUpTo(dead, 2).After), int64(2))
	for most, want := range map[int]int64{0: 2, 1: 1, 2: 2, 9: 2} {
		equal(t, fmt.Sprintf("cancelled because of one, up to %d", most), t.flowUpTo(dead, most).Caused, want)
	}
	equal(t, "cancelled because of another", t.flowUpTo(ids[0], 0).Caused, int64(0))
	if _, err := t.db.Flow(t.ctx, dead, -1); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("up to -1: %v", err)
	}
	sameIDs(t, "requeued", t.requeue(dead), []int64{dead})
	equal(t, "cancelled because of it once it was requeued", t.flowUpTo(dead, 0).Caused, int64(0))
	t.complete(last[8])
	t.complete(t.startsSoon("the page again", dead)...)
	t.complete(t.startsSoon("what comes after the end", ids[9], ids[11])...)
	t.complete(t.startsSoon("the last", ids[10])...)
}

// sumOf counts the jobs of rows.
func sumOf(rows []admin.FlowRow) (n int64) {
	for _, r := range rows {
		n += r.Jobs()
	}
	return n
}

func (t *test) flow(id int64) admin.Flow { return t.flowUpTo(id, 0) }

func (t *test) flowUpTo(id int64, most int) admin.Flow {
	t.Helper()
	f, err := t.db.Flow(t.ctx, id, most)
	t.must(err)
	return f
}

func (t *test) followers(queue string) int {
	t.Helper()
	n, err := t.db.Followers(t.ctx, queue)
	t.must(err)
	return n
}
