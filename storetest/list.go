package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Requirement 5: messages can be queried; lists never slow the queue.
var listCases = []oneCase{
	{"without a state it lists all that is not final, newest first", listNotFinal},
	{"a final state is listed last finished first", listFinal},
	{"queue, kind, group and state narrow it", listNarrowed},
	{"worker, error and payload narrow it, and the time of the end", listTexts},
	{"a unique key finds the job that holds it, of any state", listKey},
	{"no text that is looked for breaks it", listAnyText},
	{"pages cover each job once", listPages},
	{"pages cover what stays while other jobs come and go", listPagesMoving},
	{"a page that is not from here is bad input", listBadPage},
	{"where there is nothing the list is empty, not nil, so that JSON shows []", listNothing},
	{"a filter that breaks a rule is bad input", listBadFilter},
}

func listNotFinal(t *test) {
	all := t.enqueue(append(copies(3, grouped("g")), dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "k", Delay: time.Hour}, dibs.NewJob{Kind: "k", Priority: new(1)})...)
	jobs := t.claimExactly("due", all[5], all[0], all[3])
	t.complete(jobs[2])
	got := t.list(admin.Filter{})
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
	got := t.list(admin.Filter{State: dibs.Completed, Queue: dibs.DefaultQueue})
	sameIDs(t, "completed", ids(got), []int64{jobs[3].ID, jobs[0].ID, jobs[2].ID})
	for _, j := range got {
		sameJob(t, j, t.get(j.ID))
	}
	sameIDs(t, "dead", ids(t.list(admin.Filter{State: dibs.Dead})), []int64{jobs[1].ID})
	sameIDs(t, "cancelled", ids(t.list(admin.Filter{State: dibs.Cancelled})), nil)
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
func matches(f admin.Filter, j *dibs.RawJob) bool {
	return (f.Queue == "" || f.Queue == j.Queue) && (f.Kind == "" || f.Kind == j.Kind) && (f.Group == "" || f.Group == j.Group) &&
		(f.State == j.State || f.State == "" && !j.State.Final()) &&
		(!f.Scheduled || j.RunAt.After(time.Now())) && (f.Worker == "" || f.Worker == j.Worker) && strings.Contains(string(j.Payload), f.Payload) &&
		(f.Error == "" || len(j.Errors) > 0 && strings.Contains(j.Errors[len(j.Errors)-1].Error, f.Error)) &&
		(f.FinishedSince.IsZero() || !j.FinishedAt.Before(f.FinishedSince)) && (f.FinishedBefore.IsZero() || j.FinishedAt.Before(f.FinishedBefore))
}

func listNarrowed(t *test) {
	jobs := t.history()
	for _, state := range append(states, "") {
		for _, f := range []admin.Filter{
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

// expectMatches expects each list to have those of the jobs that its filter selects.
func (t *test) expectMatches(jobs []*dibs.RawJob, filters ...admin.Filter) {
	t.Helper()
	for _, f := range filters {
		var want []int64
		for _, j := range jobs {
			if matches(f, j) {
				want = append(want, j.ID)
			}
		}
		f.Limit = 7
		got := t.listPaged(f, func() {})
		slices.Sort(got)
		sameIDs(t, fmt.Sprintf("%+v", f), got, want)
	}
}

func listTexts(t *test) {
	var batch []dibs.NewJob
	for i := range 60 {
		payload := fmt.Sprintf("ann-%d@example.com", i)
		if i%4 == 0 {
			payload += strings.Repeat("x", 10_000) + "end" // so large that PostgreSQL keeps it outside of the row
		}
		batch = append(batch, dibs.NewJob{Queue: fmt.Sprint("q", i%2), Kind: "k", Payload: payload, MaxAttempts: 2})
	}
	all := t.enqueue(batch...)
	var times []time.Time
	for round := range 2 { // each job that fails does so twice, with another error and another worker
		for q := range 2 {
			for i, j := range t.claim(dibs.ClaimRequest{Queue: fmt.Sprint("q", q), Worker: fmt.Sprintf("w%d-%d", round, q), N: 25}) {
				switch l := j.Lease(); i % 5 {
				case 0:
					t.finish(l.Complete(nil))
				case 1, 2:
					t.finish(l.RetryAfter(0, fmt.Sprintf("round %d: dial 10.0.0.%d: refused\nat 'line' 100%% \\ %d", round, i, i)))
				case 3:
					t.finish(l.Cancel("not wanted"))
				}
				if now := t.get(j.ID); now.State.Final() {
					times = append(times, now.FinishedAt)
				}
			}
		}
	}
	jobs := make([]*dibs.RawJob, len(all))
	for i, id := range all {
		jobs[i] = t.get(id)
	}
	for _, state := range append(states, "") {
		t.expectMatches(
			jobs, admin.Filter{State: state, Worker: "w1-0"}, admin.Filter{State: state, Worker: "w1"}, admin.Filter{State: state, Error: "refused"},
			admin.Filter{State: state, Error: "round 0"}, admin.Filter{State: state, Error: "round 1", Worker: "w1-1", Queue: "q1"}, admin.Filter{State: state, Error: "REFUSED"},
			admin.Filter{State: state, Error: "refused\nat 'line' 100% \\"}, admin.Filter{State: state, Error: "100_"}, admin.Filter{State: state, Payload: "1@"},
			admin.Filter{State: state, Payload: "xend"}, admin.Filter{State: state, Payload: "%"}, admin.Filter{State: state, Payload: `"ann-7`, Error: "dial", Kind: "k"},
		)
		if state == dibs.Waiting {
			t.expectMatches(jobs, admin.Filter{State: state, Scheduled: true}, admin.Filter{State: state, Scheduled: true, Queue: "q1", Kind: "k"})
		}
		if state.Final() {
			for _, since := range []time.Time{{}, times[0], times[len(times)/2], times[len(times)-1].Add(time.Microsecond)} {
				for _, before := range []time.Time{{}, times[1], times[len(times)/2], times[len(times)/2+1]} {
					t.expectMatches(jobs, admin.Filter{State: state, FinishedSince: since, FinishedBefore: before},
						admin.Filter{State: state, Queue: "q1", FinishedSince: since, FinishedBefore: before, Error: "refused"})
				}
			}
		}
	}
}

// A text that looks like a pattern, a quote or JSON is searched for like any other, even if rows
// hold what is no error history.
func listAnyText(t *test) {
	texts := []string{`%`, `_`, `\`, `\\`, `'`, `"`, `$1`, `?1`, `[0-9]`, `.*`, "\n", "\u202e", "\u2028", "é", "e\u0301", "\x01", "null", `{"a": 1}`, `]`}
	var batch []dibs.NewJob
	for range texts {
		batch = append(batch, dibs.NewJob{Kind: "k", MaxAttempts: 1})
	}
	t.enqueue(batch...)
	var jobs []*dibs.RawJob
	for i, j := range t.claim(dibs.ClaimRequest{N: len(texts)}) {
		t.finish(j.Lease().Die("error " + texts[i] + " error"))
		jobs = append(jobs, t.get(j.ID))
	}
	for _, text := range texts {
		t.expectMatches(jobs, admin.Filter{State: dibs.Dead, Error: "error " + text}, admin.Filter{State: dibs.Dead, Payload: text})
	}
	for _, errors := range []string{`'{"a":1}'`, `'["a", 7, null]'`, `'7'`, `'[{"error": 5}]'`, `'[{"error": {"error": 1}}]'`, t.one("'null'", "'nonsense'"), "null"} {
		t.runSQL("update %sfinished set errors = " + strings.ReplaceAll(errors, "%", "%%"))
		_, err := t.db.List(t.ctx, admin.Filter{State: dibs.Dead, Error: "a"})
		t.must(err)
	}
}

// listPaged lists all pages of a filter, and calls between before each page but the first.
func (t *test) listPaged(f admin.Filter, between func()) []int64 {
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
		all := ids(t.list(admin.Filter{State: state, Limit: 1000}))
		for _, limit := range []int{3, 7, max(1, len(all))} {
			sameIDs(t, fmt.Sprintf("%s in pages of %d", state, limit), t.listPaged(admin.Filter{State: state, Limit: limit}, func() {}), all)
		}
	}
	equal(t, "jobs of a page by default", len(t.list(admin.Filter{})), min(100, len(t.list(admin.Filter{Limit: 1000}))))
}

func listPagesMoving(t *test) {
	all := t.enqueue(copies(60, dibs.NewJob{Kind: "k", Delay: time.Hour})...)
	got := t.listPaged(admin.Filter{Limit: 7}, func() {
		t.enqueue(dibs.NewJob{Kind: "new", Delay: time.Hour})
		t.cancel(t.enqueue(dibs.NewJob{Kind: "new"})...)
	})
	slices.Reverse(all)
	sameIDs(t, "listed", got, all)
}

func listBadPage(t *test) {
	for after, state := range map[string]dibs.State{
		"x": "", "-": "", "1;drop": "", "\x00": "",
		"-9000000000000000000.1": dibs.Dead, "-9223372036854775808.1": dibs.Dead, "9223372036854775807.1": dibs.Dead,
	} {
		_, err := t.db.List(t.ctx, admin.Filter{After: after, State: state})
		invalid(t, err, "after")
	}
	t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	for _, j := range t.claim(dibs.ClaimRequest{N: 2}) {
		t.complete(j)
	}
	for _, pages := range [][2]admin.Filter{{{Limit: 1}, {Limit: 1, State: dibs.Completed}}, {{Limit: 1, State: dibs.Completed}, {Limit: 1}}} {
		p, err := t.db.List(t.ctx, pages[0])
		t.must(err)
		pages[1].After = p.Next
		_, err = t.db.List(t.ctx, pages[1])
		invalid(t, err, "after")
	}
}

func listNothing(t *test) {
	for _, f := range []admin.Filter{{}, {State: dibs.Running}, {State: dibs.Dead}, {Queue: "q", UniqueKey: "u"}} {
		p, err := t.db.List(t.ctx, f)
		t.must(err)
		if p.Jobs == nil || len(p.Jobs) > 0 {
			t.Errorf("%+v lists %#v", f, p.Jobs)
		}
	}
	queues, err := t.db.Queues(t.ctx, "nosuch")
	t.must(err)
	stats, err := t.db.Stats(t.ctx)
	t.must(err)
	schedules, err := t.db.Schedules(t.ctx)
	t.must(err)
	groups, err := t.db.Groups(t.ctx, "nosuch")
	t.must(err)
	backlogs, err := t.db.Backlogs(t.ctx, "nosuch", "")
	t.must(err)
	kinds, err := t.db.DueKinds(t.ctx, "nosuch")
	t.must(err)
	workers, err := t.db.Workers(t.ctx)
	t.must(err)
	changes, err := t.db.Changes(t.ctx, 1)
	t.must(err)
	failures, err := t.db.Failures(t.ctx, admin.FailureFilter{Queues: []string{"nosuch"}})
	t.must(err)
	live, err := t.db.FlowJobs(t.ctx, 1, "", 0)
	t.must(err)
	for name, isNil := range map[string]bool{
		"Queues": queues == nil, "Stats": stats == nil, "Schedules": schedules == nil, "Groups": groups == nil, "Backlogs": backlogs == nil,
		"DueKinds": kinds == nil, "Workers": workers == nil, "Changes": changes == nil, "Failures": failures == nil,
		"FlowJobs": live == nil,
	} {
		if isNil {
			t.Errorf("%s returns nil", name)
		}
	}
}

func listKey(t *test) {
	key := func(key string, until dibs.UniqueUntil) dibs.NewJob {
		return dibs.NewJob{Kind: "k", UniqueKey: key, UniqueUntil: until}
	}
	holds := func(queue, key string, want ...int64) {
		t.Helper()
		sameIDs(t, "jobs that hold "+key+" of "+queue, ids(t.list(admin.Filter{Queue: queue, UniqueKey: key})), want)
	}
	const q = dibs.DefaultQueue
	all := t.enqueue(key("a", dibs.UntilFinished), key("b", dibs.UntilClaimed), dibs.NewJob{Kind: "k", UniqueKey: "c", UniqueFor: time.Hour})
	other := t.enqueue(dibs.NewJob{Queue: "other", Kind: "k", UniqueKey: "a"})
	holds(q, "a", all[0])
	holds(q, "b", all[1])
	holds(q, "c", all[2])
	holds(q, "d")
	holds(q, "A")
	holds("other", "a", other[0])
	holds("unknown", "a")
	jobs := t.claim(dibs.ClaimRequest{N: 3})
	holds(q, "a", all[0])
	holds(q, "b")
	t.complete(jobs...)
	holds(q, "a")
	holds(q, "c", all[2])
	sameJob(t, t.list(admin.Filter{Queue: q, UniqueKey: "c"})[0], t.get(all[2]))
	t.prune(q, dibs.Completed, 0)
	holds(q, "c")
}

func listBadFilter(t *test) {
	now := time.Now()
	for _, c := range []struct {
		field string
		f     admin.Filter
	}{
		{"worker", admin.Filter{Worker: "a\nb"}},
		{"error", admin.Filter{Error: "a\x00"}},
		{"error", admin.Filter{Error: strings.Repeat("e", 1025)}},
		{"payload", admin.Filter{Payload: "\xff"}},
		{"payload", admin.Filter{Payload: strings.Repeat("e", 1025)}},
		{"unique_key", admin.Filter{Queue: "q", UniqueKey: "a\x00"}},
		{"unique_key", admin.Filter{Queue: "q", UniqueKey: "a", Kind: "k"}},
		{"unique_key", admin.Filter{Queue: "q", UniqueKey: "a", State: dibs.Dead}},
		{"queue", admin.Filter{UniqueKey: "a"}},
		{"state", admin.Filter{Scheduled: true}},
		{"state", admin.Filter{Scheduled: true, State: dibs.Dead}},
		{"state", admin.Filter{FinishedSince: now}},
		{"state", admin.Filter{FinishedBefore: now, State: dibs.Running}},
		{"finished_before", admin.Filter{FinishedBefore: now.AddDate(9000, 0, 0), State: dibs.Dead}},
	} {
		_, err := t.db.List(t.ctx, c.f)
		invalid(t, err, c.field)
	}
}
