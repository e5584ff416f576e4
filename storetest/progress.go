package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Progress belongs to one attempt: its holder sets it by extending the lease, and nobody else.
var progressCases = []oneCase{
	{"progress is written by an extension, and seen", progressSeen},
	{"progress ends with its attempt", progressEnds},
	{"a stale worker's progress changes nothing", progressStale},
	{"bad progress is refused with its whole call", progressRefused},
	{"the text of progress is made fit to store", progressText},
	{"of the leases of one call, each gets its own progress and its own answer", progressOfMany},
	{"a worker writes the last progress of each handler, however long the lease", progressOfHandlers},
}

// extendWith extends the lease on a job with a progress.
func (t *test) extendWith(j *dibs.RawJob, p dibs.Progress) dibs.Extended {
	t.Helper()
	l := j.Lease()
	l.Progress = &p
	return t.extend(time.Hour, l)
}

// expectProgress expects a job to have a progress, in each way to look at it.
func (t *test) expectProgress(id int64, want dibs.Progress) {
	t.Helper()
	jobs := append(t.list(admin.Filter{State: dibs.Running}), append(t.list(admin.Filter{}), t.get(id))...)
	seen := 0
	for _, j := range jobs {
		if j.ID != id {
			continue
		}
		if seen++; j.Progress == nil {
			t.Fatalf("job %d has no progress, want %+v", id, want)
		}
		got := *j.Progress
		if got.At.Before(j.ClaimedAt) || got.At.After(j.LeaseUntil) {
			t.Fatalf("the progress is of %v, claimed %v, leased until %v", got.At, j.ClaimedAt, j.LeaseUntil)
		}
		got.At = time.Time{}
		equal(t, "progress", got, want)
	}
	equal(t, "times seen", seen, 3)
}

func (t *test) expectNoProgress(id int64) {
	t.Helper()
	if j := t.get(id); j.Progress != nil {
		t.Fatalf("job %d is %s and has progress %+v", id, j.State, j.Progress)
	}
}

func progressSeen(t *test) {
	all := t.enqueue(copies(3, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 3})
	t.expectNoProgress(all[0])
	first, last := dibs.Progress{Done: 1, Total: 10, Text: "one"}, dibs.Progress{Done: 1<<63 - 1, Total: 1<<63 - 1, Text: "ü \"'{}\n"}
	t.extendWith(jobs[0], first)
	t.extendWith(jobs[1], dibs.Progress{})
	t.expectProgress(all[0], first)
	t.expectProgress(all[1], dibs.Progress{})
	t.expectNoProgress(all[2])
	t.extendAll(2*time.Hour, leases(jobs)...)
	t.expectProgress(all[0], first)
	second, third := jobs[1].Lease(), jobs[2].Lease()
	second.Progress, third.Progress = &last, &dibs.Progress{Done: 3}
	t.extendAll(3*time.Hour, jobs[0].Lease(), second, third) // some with progress, some without
	t.expectProgress(all[0], first)
	t.expectProgress(all[1], last)
	t.expectProgress(all[2], dibs.Progress{Done: 3})
}

func progressEnds(t *test) {
	for _, end := range []func(dibs.Lease) dibs.Outcome{
		completed, dibs.Lease.Release,
		func(l dibs.Lease) dibs.Outcome { return l.RetryAfter(0, "x") },
		func(l dibs.Lease) dibs.Outcome { return l.Snooze(0) },
		func(l dibs.Lease) dibs.Outcome { return l.Die("x") },
	} {
		id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
		j := t.claimOne(dibs.ClaimRequest{})
		t.extendWith(j, dibs.Progress{Done: 7})
		t.expectProgress(id, dibs.Progress{Done: 7})
		t.finish(end(j.Lease()))
		t.expectNoProgress(id)
		if t.get(id).State.Final() {
			continue
		}
		j = t.claimSoon(dibs.ClaimRequest{}, 1)[0]
		t.expectNoProgress(id)
		t.extendAll(time.Hour, j.Lease())
		t.expectNoProgress(id)
		t.extendWith(j, dibs.Progress{Done: 1})
		t.expectProgress(id, dibs.Progress{Done: 1})
		resumed, err := t.db.Resume(t.ctx, dibs.ClaimRequest{Worker: "w", Lease: time.Hour})
		t.must(err)
		equal(t, "resumed", len(resumed), 1)
		t.expectNoProgress(id)
		t.finish(resumed[0].Lease().Complete(nil))
	}
}

func progressStale(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	old := t.claimOne(dibs.ClaimRequest{})
	t.extendWith(old, dibs.Progress{Done: 99, Text: "old"})
	t.expire(old)
	sameIDs(t, "lost", t.extendWith(old, dibs.Progress{Done: 100}).Lost, []int64{id})
	j := t.claimSoon(dibs.ClaimRequest{}, 1)[0]
	t.expectNoProgress(id)
	for _, stale := range []*dibs.RawJob{old, {ID: id, Token: dibs.Token{1}}} {
		sameIDs(t, "lost", t.extendWith(stale, dibs.Progress{Done: 100}).Lost, []int64{id})
		t.expectNoProgress(id)
	}
	t.extendWith(j, dibs.Progress{Done: 1})
	sameIDs(t, "lost", t.extendWith(old, dibs.Progress{Done: 100}).Lost, []int64{id})
	t.expectProgress(id, dibs.Progress{Done: 1})
	t.finish(j.Lease().Complete(nil))
	sameIDs(t, "lost", t.extendWith(j, dibs.Progress{Done: 2}).Lost, []int64{id})
	t.expectNoProgress(id)
}

func progressRefused(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	for field, p := range map[string]dibs.Progress{
		"leases[1].progress.done":  {Done: -1},
		"leases[1].progress.total": {Done: 1, Total: -1},
	} {
		bad := jobs[1].Lease()
		bad.Progress = &p
		good := jobs[0].Lease()
		good.Progress = &dibs.Progress{Done: 1}
		var invalid *dibs.InvalidError
		_, err := t.db.Extend(t.ctx, []dibs.Lease{good, bad}, 5*time.Hour)
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Fatalf("Extend gave %v, want an InvalidError of %s", err, field)
		}
	}
	sameJob(t, t.get(jobs[0].ID), jobs[0])
}

func progressText(t *test) {
	id := t.enqueue(dibs.NewJob{Kind: "k"})[0]
	j := t.claimOne(dibs.ClaimRequest{})
	for text, want := range map[string]string{
		"a\x00b":  "a\ufffdb",
		"a\xffb":  "a\ufffdb",
		`\u0000"`: `\u0000"`,
		strings.Repeat("ü", dibs.MaxProgressText/2): strings.Repeat("ü", dibs.MaxProgressText/2),
	} {
		t.extendWith(j, dibs.Progress{Text: text})
		t.expectProgress(id, dibs.Progress{Text: want})
	}
	t.extendWith(j, dibs.Progress{Text: strings.Repeat("ü", 1000)})
	got := t.get(id).Progress.Text
	if len(got) > dibs.MaxProgressText || !utf8.ValidString(got) || !strings.HasPrefix(got, strings.Repeat("ü", 100)) {
		t.Fatalf("got %q", got)
	}
}

// The lease lasts an hour, and would be extended after 20 minutes: later than the test waits.
func progressOfHandlers(t *test) {
	ctx, stop := context.WithCancel(t.ctx)
	done := make(chan error, 1)
	next := make(chan bool)
	w := &dibs.Worker{Store: t.db, Lease: time.Hour}
	w.HandleRaw("k", func(ctx context.Context, job *dibs.RawJob) error {
		for n := int64(1); ; n++ {
			for i := range int64(1000) {
				if err := job.SetProgress(i, n, "counting"); err != nil {
					return err
				}
			}
			select {
			case <-next:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	w.HandleRaw("silent", func(ctx context.Context, _ *dibs.RawJob) error { <-ctx.Done(); return ctx.Err() })
	w.ShutdownWait = -1
	all := t.enqueue(dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "k"}, dibs.NewJob{Kind: "silent"})
	go func() { done <- w.Run(ctx) }()
	for n := int64(1); n <= 2; n++ {
		for _, id := range all[:2] {
			t.waitUntil("the progress is written", func() bool { j := t.get(id); return j.Progress != nil && j.Progress.Total == n })
			t.expectProgress(id, dibs.Progress{Done: 999, Total: n, Text: "counting"})
		}
		t.expectNoProgress(all[2])
		next <- true
		next <- true
	}
	stop()
	t.must(<-done)
	t.expectNoProgress(all[0])
}

func progressOfMany(t *test) {
	const n = 40
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	var jobs []*dibs.RawJob
	for range n / 4 {
		jobs = append(jobs, t.claim(dibs.ClaimRequest{N: 4, Lease: time.Minute})...)
	}
	t.random().Shuffle(n, func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	var held []dibs.Lease
	var lost, cancelled []int64
	for i, j := range jobs {
		l := j.Lease()
		if i%2 == 0 {
			l.Progress = &dibs.Progress{Done: j.ID, Text: fmt.Sprintf("\"%d\" <ä>\\u0000", j.ID)}
		}
		switch i % 5 {
		case 3:
			t.cancel(j.ID)
			cancelled = append(cancelled, j.ID)
		case 4: // the token of another claim
			l.Token[0]++
			lost = append(lost, j.ID)
		}
		held = append(held, l)
	}
	e := t.extend(time.Hour, held...)
	sameIDs(t, "lost", e.Lost, slices.Sorted(slices.Values(lost)))
	sameIDs(t, "cancelled", e.Cancelled, slices.Sorted(slices.Values(cancelled)))
	for i, j := range jobs {
		got := t.get(j.ID)
		equal(t, "extended", got.LeaseUntil.Sub(got.ClaimedAt) > time.Minute, i%5 != 4)
		equal(t, "has progress", got.Progress != nil, i%2 == 0 && i%5 != 4)
		if got.Progress != nil {
			equal(t, "done", got.Progress.Done, j.ID)
			equal(t, "text", got.Progress.Text, held[i].Progress.Text)
		}
	}
}
