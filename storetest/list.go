package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
)

// Requirement 5: messages can be queried; lists never slow the queue.
var listCases = []oneCase{
	{"without a state it lists all that is not final, newest first", listNotFinal},
	{"a final state is listed last finished first", listFinal},
	{"queue, kind, group and state narrow it", listNarrowed},
	{"pages cover each job once", listPages},
	{"pages cover what stays while other jobs come and go", listPagesMoving},
	{"a page that is not from here is bad input", listBadPage},
}

func listNotFinal(t *test) {
	all := t.enqueue(append(copies(3, grouped("g")), dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "k", Delay: time.Hour}, dibs.NewJob{Kind: "k", Priority: new(1)})...)
	jobs := t.claimExactly("due", all[5], all[0], all[3])
	t.complete(jobs[2])
	got := t.list(dibs.Filter{})
	sameIDs(t, "listed", ids(got), []int64{all[5], all[4], all[2], all[1], all[0]})
	for _, j := range got {
		sameJob(t, j, t.get(j.ID))
	}
}

func listFinal(t *test) {
	t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 4})
	for _, i := range []int{2, 0, 3} {
		t.finish(jobs[i].Lease().Complete([]byte("1")))
		t.waitUntilTime(t.get(jobs[i].ID).FinishedAt)
	}
	t.finish(jobs[1].Lease().Die("e"))
	got := t.list(dibs.Filter{State: dibs.Completed, Queue: dibs.DefaultQueue})
	sameIDs(t, "completed", ids(got), []int64{jobs[3].ID, jobs[0].ID, jobs[2].ID})
	for _, j := range got {
		sameJob(t, j, t.get(j.ID))
	}
	sameIDs(t, "dead", ids(t.list(dibs.Filter{State: dibs.Dead})), []int64{jobs[1].ID})
	sameIDs(t, "cancelled", ids(t.list(dibs.Filter{State: dibs.Cancelled})), nil)
}

// history fills two queues with jobs in every state, and returns them as Get returns them.
func (t *test) history() []*dibs.RawJob {
	t.Helper()
	var batch []dibs.NewJob
	for i := range 120 {
		j := dibs.NewJob{Queue: fmt.Sprintf("q%d", i%2), Kind: fmt.Sprintf("k%d", i%3), Delay: time.Duration(i%10/9) * time.Hour}
		if i%4 == 0 {
			j.Group = fmt.Sprintf("g%d", i%5)
		}
		batch = append(batch, j)
	}
	all := t.enqueue(batch...)
	for i := range 2 {
		jobs := t.claim(dibs.ClaimRequest{Queue: fmt.Sprintf("q%d", i), N: 30})
		for k, j := range jobs {
			if k%5 != 4 {
				t.finish(endings(j.Lease())[[]int{0, 1, 5, 6}[k%5]])
			}
		}
	}
	jobs := make([]*dibs.RawJob, len(all))
	for i, id := range all {
		jobs[i] = t.get(id)
	}
	return jobs
}

var states = []dibs.State{dibs.Waiting, dibs.Blocked, dibs.Running, dibs.Completed, dibs.Dead, dibs.Cancelled}

// matches reports whether a filter selects a job.
func matches(f dibs.Filter, j *dibs.RawJob) bool {
	return (f.Queue == "" || f.Queue == j.Queue) && (f.Kind == "" || f.Kind == j.Kind) && (f.Group == "" || f.Group == j.Group) &&
		(f.State == j.State || f.State == "" && !j.State.Final())
}

func listNarrowed(t *test) {
	jobs := t.history()
	for _, state := range append(states, "") {
		for _, f := range []dibs.Filter{
			{}, {Queue: "q0"}, {Queue: "q1", Kind: "k1"}, {Kind: "k2"}, {Group: "g2"}, {Queue: "q0", Group: "g4", Kind: "k0"}, {Queue: "nobody's"},
		} {
			f.State, f.Limit = state, 1000
			var want []int64
			for _, j := range jobs {
				if matches(f, j) {
					want = append(want, j.ID)
				}
			}
			got := ids(t.list(f))
			slices.Sort(got)
			sameIDs(t, fmt.Sprintf("%+v", f), got, want)
		}
	}
}

// listPaged lists all pages of a filter, and calls between before each page but the first.
func (t *test) listPaged(f dibs.Filter, between func()) []int64 {
	t.Helper()
	var all []int64
	for {
		p, err := t.db.List(t.ctx, f)
		t.must(err)
		if len(p.Jobs) > f.Limit {
			t.Fatalf("a page of %d jobs, asked for %d", len(p.Jobs), f.Limit)
		}
		all = append(all, ids(p.Jobs)...)
		if p.Next == "" {
			return all
		}
		f.After = p.Next
		between()
	}
}

func listPages(t *test) {
	t.history()
	for _, state := range append(states, "") {
		all := ids(t.list(dibs.Filter{State: state, Limit: 1000}))
		for _, limit := range []int{3, 7, max(1, len(all))} {
			sameIDs(t, fmt.Sprintf("%s in pages of %d", state, limit), t.listPaged(dibs.Filter{State: state, Limit: limit}, func() {}), all)
		}
	}
	equal(t, "jobs of a page by default", len(t.list(dibs.Filter{})), min(100, len(t.list(dibs.Filter{Limit: 1000}))))
}

func listPagesMoving(t *test) {
	all := t.enqueue(copies(60, dibs.NewJob{Kind: "k", Delay: time.Hour})...)
	got := t.listPaged(dibs.Filter{Limit: 7}, func() {
		t.enqueue(dibs.NewJob{Kind: "new", Delay: time.Hour})
		t.cancel(t.enqueue(dibs.NewJob{Kind: "new"})...)
	})
	slices.Reverse(all)
	sameIDs(t, "listed", got, all)
}

func listBadPage(t *test) {
	for _, after := range []string{"x", "-", "1;drop", "\x00"} {
		_, err := t.db.List(t.ctx, dibs.Filter{After: after})
		invalid(t, err, "after")
	}
}
