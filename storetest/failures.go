package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

var failureCases = []oneCase{
	{"dead jobs are listed with their last error, last died first", failuresListed},
	{"a queue in which many jobs have died hides no other", failuresOfEach},
	{"a list of failures goes on where the last one has ended", failuresGoOn},
	{"a long error loses its middle, and none breaks the list", failuresOdd},
	{"the times of the last completed jobs", lastTimes},
	{"a list of failures that breaks a rule is bad input", badFailures},
}

func failuresListed(t *test) {
	equal(t, "of an empty database", len(t.failures(admin.FailureFilter{Queues: []string{"q0"}})), 0)
	var want []admin.Failure
	for i := range 12 {
		q := fmt.Sprint("q", i%3)
		id := t.enqueue(dibs.NewJob{Queue: q, Kind: fmt.Sprint("k", i%2), MaxAttempts: 2, Payload: "large"})[0]
		for attempt := range 2 {
			j := t.claimOne(dibs.ClaimRequest{Queue: q})
			t.finish(j.Lease().RetryAfter(0, fmt.Sprintf("error %d of job %d", attempt, i)))
		}
		j := t.get(id)
		want = append(want, admin.Failure{ID: id, Queue: q, Kind: j.Kind, At: j.FinishedAt, Attempt: 2, Error: fmt.Sprintf("error 1 of job %d", i)})
		t.waitUntilTime(j.FinishedAt.Add(time.Microsecond))
		t.finish(t.completedBeside(q).Lease().Complete(nil), t.completedBeside(q).Lease().Cancel("not this"))
	}
	slices.Reverse(want)
	equal(t, "of all queues", t.failures(admin.FailureFilter{Queues: []string{"q2", "q0", "q1", "nobody's", "q1"}}), want)
	for q := range 4 {
		name := fmt.Sprint("q", q)
		of := slices.DeleteFunc(slices.Clone(want), func(f admin.Failure) bool { return f.Queue != name })
		for _, limit := range []int{0, admin.MaxFailures, 4, 3, 1} {
			got := t.failures(admin.FailureFilter{Queues: []string{name}, Limit: limit})
			equal(t, fmt.Sprintf("of %s, up to %d", name, limit), got, of[:min(cmp.Or(limit, 4), len(of))])
		}
	}
}

func (t *test) failures(f admin.FailureFilter) []admin.Failure {
	t.Helper()
	list, err := t.db.Failures(t.ctx, f)
	t.must(err)
	return list
}

// dieIn has n jobs of a queue die at one time.
func (t *test) dieIn(queue string, n int) []int64 {
	t.Helper()
	ids := t.enqueue(copies(n, dibs.NewJob{Queue: queue, Kind: "k"})...)
	var outcomes []dibs.Outcome
	for _, j := range t.claim(dibs.ClaimRequest{Queue: queue, N: n}) {
		outcomes = append(outcomes, j.Lease().Die("boom"))
	}
	t.finish(outcomes...)
	return ids
}

func failuresOfEach(t *test) {
	first, second := t.dieIn("first", 3), t.dieIn("second", 5)
	got := map[string][]int64{}
	for _, f := range t.failures(admin.FailureFilter{Queues: []string{"first", "second"}, Limit: 2}) {
		got[f.Queue] = append(got[f.Queue], f.ID)
	}
	equal(t, "the last two of each", got, map[string][]int64{"first": {first[2], first[1]}, "second": {second[4], second[3]}})
}

// Several jobs have died at one time, and those of a page are put back before the next is read.
func failuresGoOn(t *test) {
	ids := append(t.dieIn("q", 5), t.dieIn("q", 6)...)
	var got []int64
	f := admin.FailureFilter{Queues: []string{"q"}, Limit: 4}
	for range 3 {
		page := t.failures(f)
		for _, one := range page {
			got = append(got, one.ID)
		}
		f.Before = &page[len(page)-1]
		_, err := t.db.Requeue(t.ctx, got[:2], time.Time{})
		t.must(err)
	}
	slices.Reverse(got)
	equal(t, "all pages", got, ids)
	equal(t, "after the last", len(t.failures(f)), 0)
}

// completedBeside is a running job of the queue.
func (t *test) completedBeside(queue string) *dibs.RawJob {
	t.Helper()
	t.enqueue(dibs.NewJob{Queue: queue, Kind: "beside"})
	return t.claimOne(dibs.ClaimRequest{Queue: queue})
}

func failuresOdd(t *test) {
	long := strings.Repeat("é", 600) + strings.Repeat("x", 300) + strings.Repeat("ü", 400)
	texts := []string{"", "e", long[:len("é")*600] + strings.Repeat("z", 400), long, "a\x00b\n<script>\u202e"}
	var want []string
	t.enqueue(copies(len(texts), dibs.NewJob{Kind: "k"})...)
	for i, j := range t.claim(dibs.ClaimRequest{N: len(texts)}) {
		t.finish(j.Lease().Die(texts[i]))
		stored := t.get(j.ID).Errors[0].Error
		if texts[i] == long {
			stored = strings.Repeat("é", 600) + "…" + strings.Repeat("ü", 400)
		}
		want = append(want, stored)
	}
	list := t.failures(admin.FailureFilter{Queues: []string{dibs.DefaultQueue}})
	got := make([]string, len(list))
	for i, f := range list {
		got[i] = f.Error
	}
	slices.Sort(got)
	slices.Sort(want)
	equal(t, "errors", got, want)
	for _, errors := range []string{`'{"a":1}'`, `'["a", 7, null]'`, `'7'`, `'[{"error": 5}]'`, `'[{"error": {"error": 1}}]'`, t.one("'null'", "'nonsense'"), "null"} {
		t.runSQL("update %sfinished set errors = " + errors)
		list := t.failures(admin.FailureFilter{Queues: []string{dibs.DefaultQueue}})
		equal(t, "failures with errors "+errors, len(list), len(texts))
	}
}

func badFailures(t *test) {
	for field, f := range map[string]admin.FailureFilter{
		"limit":     {Queues: []string{"a", "b"}, Limit: admin.MaxFailures/2 + 1},
		"queues":    {},
		"queues[1]": {Queues: []string{"a", "a\nb"}},
		"before":    {Queues: []string{"a"}, Before: &admin.Failure{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
	} {
		_, err := t.db.Failures(t.ctx, f)
		invalid(t, err, field)
	}
	_, err := t.db.Failures(t.ctx, admin.FailureFilter{Queues: []string{"a"}, Limit: -1})
	invalid(t, err, "limit")
}

// Jobs 1 to 1000 wait as many milliseconds as their number says and run twice as long; one that
// ended before them took an hour.
func lastTimes(t *test) {
	none, err := t.db.Times(t.ctx, "nobody's")
	t.must(err)
	equal(t, "times of no jobs", none, admin.Times{})
	all := t.enqueue(copies(admin.TimesOf+1, dibs.NewJob{Queue: "q", Kind: "k"})...)
	for _, j := range t.claim(dibs.ClaimRequest{Queue: "q", N: len(all)}) {
		t.finish(j.Lease().Complete(nil))
	}
	number := fmt.Sprintf("((id - %d) / %d)", all[0], all[1]-all[0]) // on a cluster each id is some greater than the one before
	t.runSQL(
		fmt.Sprintf(t.one(
			"update %%[1]sfinished set finished_at = run_at + 4 * %[1]s * interval '1 millisecond', claimed_at = run_at + 2 * %[1]s * interval '1 millisecond'",
			"update %%[1]sfinished set finished_at = run_at + 4000 * %[1]s, claimed_at = run_at + 2000 * %[1]s",
		), number),
		fmt.Sprintf(t.one(
			"update %%[1]sfinished set run_at = run_at + %[1]s * interval '1 millisecond'",
			"update %%[1]sfinished set run_at = run_at + 1000 * %[1]s",
		), number),
		fmt.Sprintf(t.one(
			"update %%[1]sfinished set run_at = run_at - interval '1 hour' where id = %[1]d",
			"update %%[1]sfinished set run_at = run_at - 3600000000 where id = %[1]d",
		), all[0]),
	)
	t.finish(t.completedBeside("q").Lease().Die("not this"), t.completedBeside("q").Lease().Cancel("nor this"))
	got, err := t.db.Times(t.ctx, "q")
	t.must(err)
	const ms = time.Millisecond
	equal(t, "times", got, admin.Times{
		Jobs: admin.TimesOf, Since: t.get(all[1]).FinishedAt,
		Wait: admin.Percentiles{P50: 500 * ms, P95: 950 * ms, P99: 990 * ms}, Run: admin.Percentiles{P50: 1000 * ms, P95: 1900 * ms, P99: 1980 * ms},
	})
	_, err = t.db.Times(t.ctx, "")
	invalid(t, err, "queue")
}
