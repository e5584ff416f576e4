package storetest

import (
	"errors"

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
		Before: []admin.FlowRow{{Queue: dibs.DefaultQueue, Kind: "page", Waiting: 2}},
		After:  []admin.FlowRow{},
		All: []admin.FlowRow{
			{Queue: dibs.DefaultQueue, Kind: "page", Waiting: 2},
			{Queue: dibs.DefaultQueue, Kind: "bind", Blocked: 1},
			{Queue: "other", Kind: "clean", Blocked: 1},
			{Queue: dibs.DefaultQueue, Kind: "mail", Blocked: 1},
		},
	})
	equal(t, "the flow of a job that was enqueued alone", t.flow(plain), admin.Flow{
		ID: plain, State: dibs.Waiting, Open: []int64{}, Before: []admin.FlowRow{}, All: []admin.FlowRow{},
		After: []admin.FlowRow{{Queue: dibs.DefaultQueue, Kind: "late", Blocked: 1}},
	})
	equal(t, "followers", []int{t.followers(dibs.DefaultQueue), t.followers("other"), t.followers("nosuch")}, []int{3, 1, 0})
	live, err := t.db.FlowJobs(t.ctx, first, 0)
	t.must(err)
	equal(t, "jobs of the flow", live, []int64{mail, clean, bind, ids[1], first})
	live, err = t.db.FlowJobs(t.ctx, first, clean)
	t.must(err)
	equal(t, "jobs of the flow below one", live, []int64{bind, ids[1], first})

	for _, j := range t.claim(dibs.ClaimRequest{N: 2, Kinds: []string{"page"}}) {
		t.must(t.db.Finish(t.ctx, []dibs.Outcome{j.Lease().Complete(nil)}))
	}
	t.becomes(dibs.Cancelled, mail)
	t.becomes(dibs.Waiting, bind, clean)
	f = t.flow(first)
	equal(t, "rows after the ends", f.All, []admin.FlowRow{
		{Queue: dibs.DefaultQueue, Kind: "page", Completed: 2},
		{Queue: dibs.DefaultQueue, Kind: "bind", Waiting: 1},
		{Queue: "other", Kind: "clean", Waiting: 1},
		{Queue: dibs.DefaultQueue, Kind: "mail", Unneeded: 1},
	})
	equal(t, "jobs that come after the first", len(f.After), 4)
	equal(t, "jobs that the late one waits for", t.flow(late).Open, []int64{plain})
	if _, err := t.db.Flow(t.ctx, 1<<40); !errors.Is(err, dibs.ErrNotFound) {
		t.Errorf("the flow of no job: %v", err)
	}
	if _, err := t.db.Followers(t.ctx, ""); !errors.Is(err, dibs.ErrInvalid) {
		t.Errorf("followers of no queue: %v", err)
	}
	ended, _, err := t.db.Cancel(t.ctx, []int64{late})
	t.must(err)
	equal(t, "cancelled", ended, []int64{late})
}

func (t *test) flow(id int64) admin.Flow {
	t.Helper()
	f, err := t.db.Flow(t.ctx, id)
	t.must(err)
	return f
}

func (t *test) followers(queue string) int {
	t.Helper()
	n, err := t.db.Followers(t.ctx, queue)
	t.must(err)
	return n
}
