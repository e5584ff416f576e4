package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

var failureCases = []oneCase{
	{"dead jobs are listed with their last error, last died first", failuresListed},
	{"a long error loses its middle, and none breaks the list", failuresOdd},
	{"the times of the last completed jobs", lastTimes},
	{"a list of failures that breaks a rule is bad input", badFailures},
}

func failuresListed(t *test) {
	all, err := t.db.Failures(t.ctx, "", 0)
	t.must(err)
	equal(t, "of an empty database", len(all), 0)
	var want []dibs.Failure
	for i := range 12 {
		q := fmt.Sprint("q", i%3)
		id := t.enqueue(dibs.NewJob{Queue: q, Kind: fmt.Sprint("k", i%2), MaxAttempts: 2, Payload: "large"})[0]
		for attempt := range 2 {
			j := t.claimOne(dibs.ClaimRequest{Queue: q})
			t.finish(j.Lease().RetryAfter(0, fmt.Sprintf("error %d of job %d", attempt, i)))
		}
		j := t.get(id)
		want = append(want, dibs.Failure{ID: id, Queue: q, Kind: j.Kind, At: j.FinishedAt, Attempt: 2, Error: fmt.Sprintf("error 1 of job %d", i)})
		t.waitUntilTime(j.FinishedAt.Add(time.Microsecond))
		t.finish(t.completedBeside(q).Lease().Complete(nil), t.completedBeside(q).Lease().Cancel("not this"))
	}
	slices.Reverse(want)
	for _, limit := range []int{0, dibs.MaxFailures, 12, 5, 1} {
		got, err := t.db.Failures(t.ctx, "", limit)
		t.must(err)
		equal(t, fmt.Sprintf("of all queues, up to %d", limit), got, want[:min(12, cmp.Or(limit, 12))])
	}
	for q := range 4 {
		name := fmt.Sprint("q", q)
		of := slices.DeleteFunc(slices.Clone(want), func(f dibs.Failure) bool { return f.Queue != name })
		got, err := t.db.Failures(t.ctx, name, 3)
		t.must(err)
		equal(t, "of "+name, got, of[:min(3, len(of))])
	}
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
	list, err := t.db.Failures(t.ctx, "", 0)
	t.must(err)
	got := make([]string, len(list))
	for i, f := range list {
		got[i] = f.Error
	}
	slices.Sort(got)
	slices.Sort(want)
	equal(t, "errors", got, want)
	for _, errors := range []string{`'{"a":1}'`, `'["a", 7, null]'`, `'7'`, `'[{"error": 5}]'`, `'[{"error": {"error": 1}}]'`, t.one("'null'", "'nonsense'"), "null"} {
		t.runSQL("update %sfinished set errors = " + errors)
		list, err := t.db.Failures(t.ctx, "", 0)
		t.must(err)
		equal(t, "failures with errors "+errors, len(list), len(texts))
	}
}

func badFailures(t *test) {
	for _, limit := range []int{-1, dibs.MaxFailures + 1} {
		_, err := t.db.Failures(t.ctx, "", limit)
		invalid(t, err, "limit")
	}
	_, err := t.db.Failures(t.ctx, "a\nb", 0)
	invalid(t, err, "queue")
}

// Jobs 1 to 1000 wait as many milliseconds as their number says and run twice as long; one that
// ended before them took an hour.
func lastTimes(t *test) {
	none, err := t.db.Times(t.ctx, "nobody's")
	t.must(err)
	equal(t, "times of no jobs", none, dibs.Times{})
	all := t.enqueue(copies(dibs.TimesOf+1, dibs.NewJob{Queue: "q", Kind: "k"})...)
	for _, j := range t.claim(dibs.ClaimRequest{Queue: "q", N: len(all)}) {
		t.finish(j.Lease().Complete(nil))
	}
	number := fmt.Sprintf("(id - %d)", all[0])
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
	equal(t, "times", got, dibs.Times{
		Jobs: dibs.TimesOf, Since: t.get(all[1]).FinishedAt,
		Wait: dibs.Percentiles{P50: 500 * ms, P95: 950 * ms, P99: 990 * ms}, Run: dibs.Percentiles{P50: 1000 * ms, P95: 1900 * ms, P99: 1980 * ms},
	})
	_, err = t.db.Times(t.ctx, "")
	invalid(t, err, "queue")
}
