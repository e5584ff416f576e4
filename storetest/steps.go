package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// A step that is done stays done, whatever becomes of the attempt, until its job is deleted: Check, after each case,
// finds steps without a job.
var stepCases = []oneCase{
	{"later attempts find what earlier ones have done, in order", stepsFound},
	{"a lease that is lost neither reads nor writes a step", stepsFenced},
	{"a job that has ended takes no step", stepsAfterEnd},
	{"the same step again changes nothing, another value is refused", stepsOnce},
	{"a restarted worker finds the steps of what it resumes", stepsResumed},
	{"steps stay with a job that is retried, snoozed, released or requeued", stepsStay},
	{"steps go with their jobs, however these go", stepsGo},
	{"a job that is replaced while it waits begins without steps", stepsReplaced},
	{"wide values and any text come back as they were", stepsWide},
	{"bad steps are refused and name the field", stepsBad},
	{"a job has at most MaxSteps steps, of MaxStepsTotal bytes", stepsBounded},
	{"steps whose job was deleted by hand are found and go", stepsStray},
	{"a worker does each step once, whatever its attempts end with", stepsWorker},
}

// stepsIn are the steps as a transaction shows and writes them.
func (t *test) stepsIn(tx Tx) dibs.StepStore {
	t.Helper()
	s, ok := tx.Tx.(dibs.StepStore)
	if !ok {
		t.Fatalf("%T keeps no steps", tx.Tx)
	}
	return s
}

func (t *test) putStep(j *dibs.RawJob, name, value string) {
	t.Helper()
	t.must(t.db.PutStep(t.ctx, j.Lease(), name, json.RawMessage(value)))
}

// expectSteps expects a job to have these steps, as name=value.
func (t *test) expectSteps(l dibs.Lease, want ...string) {
	t.Helper()
	all, err := t.db.Steps(t.ctx, l)
	t.must(err)
	got := []string{}
	for _, s := range all {
		got = append(got, s.Name+"="+string(s.Value))
	}
	equal(t, "steps", fmt.Sprint(got), fmt.Sprint(append([]string{}, want...)))
}

func (t *test) stepsRefused(l dibs.Lease) {
	t.Helper()
	s := t.db
	if _, err := s.Steps(t.ctx, l); !errors.Is(err, dibs.ErrLeaseLost) {
		t.Fatalf("steps are read without an error that is ErrLeaseLost: %v", err)
	}
	if err := s.PutStep(t.ctx, l, "stale", json.RawMessage("1")); !errors.Is(err, dibs.ErrLeaseLost) {
		t.Fatalf("a step is written without an error that is ErrLeaseLost: %v", err)
	}
}

func stepsFound(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	first := t.claimOne(dibs.ClaimRequest{})
	t.expectSteps(first.Lease())
	t.putStep(first, "b", `{"n":1}`)
	t.putStep(first, "a", "null")
	t.expectSteps(first.Lease(), `b={"n":1}`, "a=null")
	t.finish(first.Lease().RetryAfter(0, "e"))
	second := t.claimSoon(dibs.ClaimRequest{}, 1)[0]
	t.expectSteps(second.Lease(), `b={"n":1}`, "a=null")
	t.putStep(second, "c", "3")
	t.expectSteps(dibs.Lease{ID: second.ID}, `b={"n":1}`, "a=null", "c=3") // who only looks needs no token
	t.finish(second.Lease().Complete(nil))
	t.expectSteps(dibs.Lease{ID: second.ID}, `b={"n":1}`, "a=null", "c=3")
}

func stepsFenced(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	old := t.claimOne(dibs.ClaimRequest{Lease: dibs.MinLease})
	t.waitForExpiry(old)
	t.stepsRefused(old.Lease())
	t.sweep()
	t.stepsRefused(old.Lease())
	now := t.claimSoon(dibs.ClaimRequest{}, 1)[0]
	t.stepsRefused(old.Lease())
	t.stepsRefused(dibs.Lease{ID: now.ID, Token: dibs.Token{1}})
	t.stepsRefused(dibs.Lease{ID: 1 << 40, Token: now.Token})
	t.expectSteps(now.Lease())
}

func stepsAfterEnd(t *test) {
	n := len(endings(dibs.Lease{}))
	t.enqueue(copies(n, dibs.NewJob{Kind: "k"})...)
	for i, j := range t.claim(dibs.ClaimRequest{N: n}) {
		t.putStep(j, "a", "1")
		t.finish(endings(j.Lease())[i])
		t.stepsRefused(j.Lease())
		t.expectSteps(dibs.Lease{ID: j.ID}, "a=1")
	}
}

func stepsOnce(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	j := t.claimOne(dibs.ClaimRequest{})
	t.putStep(j, "a", `{"n": 1}`)
	t.putStep(j, "a", `{"n": 1}`)
	invalid(t, t.db.PutStep(t.ctx, j.Lease(), "a", json.RawMessage("2")), "step")
	t.expectSteps(j.Lease(), `a={"n": 1}`)
}

func stepsResumed(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	old := t.claimOne(dibs.ClaimRequest{})
	t.putStep(old, "a", "1")
	j := t.resume(dibs.ClaimRequest{Worker: "w"})[0]
	equal(t, "attempt", j.Attempt, 2) // so its worker reads the steps
	t.stepsRefused(old.Lease())
	t.expectSteps(j.Lease(), "a=1")
}

func stepsStay(t *test) {
	t.retryLate(dibs.DefaultQueue)
	id := t.enqueue(dibs.NewJob{Kind: "k", Group: "g"})[0]
	for i, end := range []func(dibs.Lease) dibs.Outcome{
		func(l dibs.Lease) dibs.Outcome { return l.RetryAfter(0, "e") }, func(l dibs.Lease) dibs.Outcome { return l.Snooze(0) },
		dibs.Lease.Release, func(l dibs.Lease) dibs.Outcome { return l.Die("e") },
		func(l dibs.Lease) dibs.Outcome { return l.Cancel("e") }, completed,
	} {
		j := t.claimSoon(dibs.ClaimRequest{}, 1)[0]
		equal(t, "attempt", j.Attempt, i+1)
		if i == 0 {
			t.putStep(j, "a", "1")
		}
		t.expectSteps(j.Lease(), "a=1")
		t.finish(end(j.Lease()))
		if t.get(id).State.Final() {
			sameIDs(t, "requeued", t.requeue(id), []int64{id})
		}
	}
	t.expectSteps(dibs.Lease{ID: id}, "a=1")
}

// stepped enqueues jobs and gives each a step.
func (t *test) stepped(jobs ...dibs.NewJob) []*dibs.RawJob {
	t.Helper()
	t.enqueue(jobs...)
	all := t.claim(dibs.ClaimRequest{Queue: jobs[0].Queue, N: len(jobs)})
	equal(t, "claimed", len(all), len(jobs))
	for _, j := range all {
		t.putStep(j, "a", "1")
	}
	return all
}

func stepsGo(t *test) {
	none := new(time.Duration)
	gone := func(jobs ...*dibs.RawJob) {
		t.Helper()
		for _, j := range jobs {
			t.expectGone(j.ID)
			t.expectSteps(dibs.Lease{ID: j.ID})
		}
	}
	// Kept, and then deleted and pruned.
	all := t.stepped(copies(3, dibs.NewJob{Queue: "kept", Kind: "k"})...)
	t.finish(outcomes(all, completed)...)
	_, err := t.db.DeleteEnded(t.ctx, []int64{all[0].ID}, time.Time{})
	t.must(err)
	gone(all[0])
	t.expectSteps(dibs.Lease{ID: all[1].ID}, "a=1")
	t.prune("kept", "", 0)
	gone(all...)
	// Kept for a job that comes after it and another, and so not pruned.
	followed := t.stepped(dibs.NewJob{Queue: "kept", Kind: "k"})[0]
	other := t.enqueue(dibs.NewJob{Queue: "kept", Kind: "k", Delay: time.Hour})[0]
	last := t.enqueue(dibs.NewJob{Queue: "kept", Kind: "k", After: []dibs.Dep{{ID: followed.ID}, {ID: other}}})[0]
	t.finish(followed.Lease().Complete(nil))
	equal(t, "pruned", t.prune("kept", "", 0), 0)
	t.expectSteps(dibs.Lease{ID: followed.ID}, "a=1")
	t.cancel(other)
	t.becomes(dibs.Cancelled, last)
	t.waitUntil("the job is kept no longer", func() bool {
		t.prune("kept", "", 0)
		_, err := t.db.Get(t.ctx, followed.ID)
		return errors.Is(err, dibs.ErrNotFound)
	})
	gone(followed)
	// Kept for a moment: the sweep deletes them.
	t.set("short", dibs.QueueChange{KeepDead: new(time.Millisecond)})
	all = t.stepped(copies(2, dibs.NewJob{Queue: "short", Kind: "k"})...)
	t.finish(all[0].Lease().Die("e"), all[1].Lease().Die("e"))
	t.waitUntil("the sweep deletes the jobs", func() bool {
		t.sweep()
		_, err := t.db.Get(t.ctx, all[1].ID)
		return errors.Is(err, dibs.ErrNotFound)
	})
	gone(all...)
	// Not kept at all, by each way to an end.
	t.set("none", dibs.QueueChange{KeepCompleted: none, KeepDead: none, KeepCancelled: none})
	all = t.stepped(copies(5, dibs.NewJob{Queue: "none", Kind: "k", MaxAttempts: 1})...)
	t.finish(all[0].Lease().Complete(nil), all[1].Lease().Retry("e"), all[2].Lease().Release(), all[4].Lease().Cancel("e"))
	t.cancel(all[2].ID)
	t.expire(all[3])
	t.sweep()
	gone(all...)
}

func stepsReplaced(t *test) {
	replace := dibs.NewJob{Kind: "k", UniqueKey: "u", IfHeld: dibs.HeldReplace}
	j := t.stepped(replace)[0]
	t.finish(j.Lease().RetryAfter(0, "e"))
	done, err := t.db.Enqueue(t.ctx, []dibs.NewJob{replace})
	t.must(err)
	equal(t, "replaced", []any{done[0].ID, done[0].Replaced}, []any{j.ID, true})
	j = t.claimSoon(dibs.ClaimRequest{}, 1)[0]
	t.expectSteps(j.Lease())
	t.putStep(j, "a", "2")
}

func stepsWide(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	j := t.claimOne(dibs.ClaimRequest{})
	wide := `"` + strings.Repeat("ä", (dibs.MaxResult-2)/2) + `"`
	texts := []string{wide, `{"a": [1.50, "\u0000\\ \"é"]}`, " null "}
	want := []string{}
	for i, text := range texts {
		name := strings.Repeat("é", i+1) + "' % \\ ;"
		t.putStep(j, name, text)
		want = append(want, name+"="+text)
	}
	t.expectSteps(j.Lease(), want...)
}

func stepsBad(t *test) {
	t.enqueue(dibs.NewJob{Kind: "k"})
	j := t.claimOne(dibs.ClaimRequest{})
	s := t.db
	for _, c := range []struct {
		l                  dibs.Lease
		name, value, field string
	}{
		{j.Lease(), "", "1", "step"},
		{j.Lease(), strings.Repeat("x", dibs.MaxName+1), "1", "step"},
		{j.Lease(), "a\nb", "1", "step"},
		{j.Lease(), "a", "", "step.value"},
		{j.Lease(), "a", "{", "step.value"},
		{j.Lease(), "a", `"` + strings.Repeat("x", dibs.MaxResult) + `"`, "step.value"},
		{j.Lease(), "a", strings.Repeat("[", dibs.MaxDepth+1) + strings.Repeat("]", dibs.MaxDepth+1), "step.value"},
		{dibs.Lease{Token: j.Token}, "a", "1", "id"},
		{dibs.Lease{ID: j.ID}, "a", "1", "token"},
	} {
		invalid(t, s.PutStep(t.ctx, c.l, c.name, json.RawMessage(c.value)), c.field)
	}
	t.expectSteps(j.Lease())
}

func stepsBounded(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Kind: "k"})...)
	jobs, s := t.claim(dibs.ClaimRequest{N: 2}), t.db
	for i := range dibs.MaxSteps {
		t.putStep(jobs[0], fmt.Sprint(i), "1")
	}
	invalid(t, s.PutStep(t.ctx, jobs[0].Lease(), "more", json.RawMessage("1")), "step")
	t.putStep(jobs[0], "7", "1")
	wide := `"` + strings.Repeat("x", dibs.MaxResult-2) + `"`
	for i := range dibs.MaxStepsTotal / dibs.MaxResult {
		t.putStep(jobs[1], fmt.Sprint(i), wide)
	}
	invalid(t, s.PutStep(t.ctx, jobs[1].Lease(), "more", json.RawMessage("1")), "step.value")
}

func stepsStray(t *test) {
	j := t.stepped(dibs.NewJob{Kind: "k"})[0]
	t.finish(j.Lease().Complete(nil))
	t.runSQL(fmt.Sprintf("delete from %%sfinished where id = %d", j.ID))
	found := fmt.Sprint(t.check())
	if !strings.Contains(found, "1 steps of jobs that are gone") {
		t.Fatalf("the check says %s", found)
	}
	t.repair(t.db)
	t.expectSteps(dibs.Lease{ID: j.ID})
}
