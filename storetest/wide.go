package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// A store may keep wide payloads apart from their jobs. Whatever becomes of a job, its payload and
// metadata are the ones it was enqueued with, and nothing of them is left when it is gone: Check,
// after each case, would find that.
var wideCases = []oneCase{
	{"wide payloads and metadata stay with their jobs", wideStay},
	{"wide payloads go with their jobs", wideGo},
}

// wideJobs are n jobs, some with wide payloads, some with wide metadata, and if keys is true, some
// with a unique key.
func wideJobs(queue string, n int, keys bool) []dibs.NewJob {
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		payload, metadata := wideValues(i)
		jobs[i] = dibs.NewJob{Queue: queue, Kind: "k", Payload: payload, Metadata: metadata, MaxAttempts: 3}
		if keys && i%5 == 0 {
			jobs[i].UniqueKey = fmt.Sprint(i)
		}
	}
	return jobs
}

// wideValues are the payload and the metadata of the job of this place.
func wideValues(i int) (payload, metadata json.RawMessage) {
	payload = json.RawMessage(fmt.Sprintf(`{"n":%d,"x":"%s"}`, i, strings.Repeat("x", i%3*800)))
	if i%4 > 1 {
		metadata = json.RawMessage(fmt.Sprintf(`{"n":%d,"y":"%s"}`, i, strings.Repeat("y", i%4*300)))
	}
	return payload, metadata
}

// expectWide expects jobs to have what they were enqueued with: all[i] was the i-th.
func (t *test) expectWide(all []int64, jobs ...*dibs.RawJob) {
	t.Helper()
	for _, j := range jobs {
		payload, metadata := wideValues(slices.Index(all, j.ID))
		if string(j.Payload) != string(payload) || string(j.Metadata) != string(metadata) {
			t.Fatalf("job %d, %s, has payload %.30s and metadata %.30s, want %.30s and %.30s", j.ID, j.State, j.Payload, j.Metadata, payload, metadata)
		}
	}
}

// allEndings gives jobs back in all ways, and ends them in all ways.
func allEndings(jobs []*dibs.RawJob) (back, final []dibs.Outcome) {
	for i, j := range jobs {
		l := j.Lease()
		if i%2 == 0 {
			back = append(back, []dibs.Outcome{l.RetryAfter(0, "e"), l.Snooze(0), l.Release()}[i/2%3])
			continue
		}
		final = append(final, []dibs.Outcome{l.Complete(json.RawMessage(`{"r":1}`)), l.Die("e"), l.Cancel("e")}[i/2%3])
	}
	return back, final
}

// listAll lists the jobs of a queue, live and ended.
func (t *test) listAll(queue string) (jobs []*dibs.RawJob) {
	t.Helper()
	for _, state := range []dibs.State{"", dibs.Completed, dibs.Dead, dibs.Cancelled} {
		jobs = append(jobs, t.list(admin.Filter{Queue: queue, State: state, Limit: 1000})...)
	}
	return jobs
}

func wideStay(t *test) {
	for i, n := range []int{24, 24, 600} { // a large batch may be inserted in another way
		queue := fmt.Sprint("q", i)
		all := t.enqueue(wideJobs(queue, n, i == 1)...)
		jobs := t.claim(dibs.ClaimRequest{Queue: queue, N: n, Lease: time.Minute})
		sameIDs(t, "claimed", ids(jobs), all)
		t.expectWide(all, jobs...)
		back, final := allEndings(jobs)
		t.finish(back...)
		t.finish(final...)
		t.expectWide(all, t.listAll(queue)...)
		again := t.claimSoon(dibs.ClaimRequest{Queue: queue, Lease: dibs.MinLease}, len(back))
		t.expectWide(all, again...)
		t.waitUntil("the leases have ended", func() bool { return t.sweep().Expired == 0 && t.stats(queue).Running == 0 })
		t.cancel(again[0].ID, again[1].ID)
		t.requeue(all[1], all[3], all[5])
		for _, id := range all[:min(n, 24)] {
			t.expectWide(all, t.get(id))
		}
		t.expectWide(all, t.claim(dibs.ClaimRequest{Queue: queue, N: n})...)
	}
}

func wideGo(t *test) {
	for _, keep := range []time.Duration{0, time.Hour} {
		queue := "keep" + keep.String()
		t.set(queue, dibs.QueueChange{KeepCompleted: &keep, KeepDead: &keep, KeepCancelled: &keep})
		all := t.enqueue(wideJobs(queue, 30, true)...)
		jobs := t.claim(dibs.ClaimRequest{Queue: queue, N: 24, Lease: time.Minute})
		back, final := allEndings(jobs)
		t.finish(append(back, final...)...)
		t.cancel(all...)
		equal(t, "jobs left of queue "+queue, len(t.listAll(queue)), map[time.Duration]int{0: 0, time.Hour: 30}[keep])
		t.prune(queue, "", 0)
		equal(t, "jobs left after that", len(t.listAll(queue)), 0)
	}
}
