package storetest

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// outcomeRows says what each outcome does to four jobs: one with attempts left, one on its
// last attempt, and two like these that somebody has asked to cancel.
var outcomeRows = []struct {
	ending dibs.Ending
	states [4]dibs.State
	delay  time.Duration // how far run_at moves if the job waits again
	counts bool          // the attempt counts against max_attempts
	error  bool          // the job keeps the error
}{
	{dibs.EndCompleted, [4]dibs.State{dibs.Completed, dibs.Completed, dibs.Completed, dibs.Completed}, 0, true, false},
	{dibs.EndRetry, [4]dibs.State{dibs.Waiting, dibs.Dead, dibs.Cancelled, dibs.Cancelled}, time.Hour, true, true},
	{dibs.EndSnooze, [4]dibs.State{dibs.Waiting, dibs.Waiting, dibs.Cancelled, dibs.Cancelled}, 2 * time.Hour, false, false},
	{dibs.EndRelease, [4]dibs.State{dibs.Waiting, dibs.Waiting, dibs.Cancelled, dibs.Cancelled}, 0, false, false},
	{dibs.EndDead, [4]dibs.State{dibs.Dead, dibs.Dead, dibs.Dead, dibs.Dead}, 0, true, true},
	{dibs.EndCancelled, [4]dibs.State{dibs.Cancelled, dibs.Cancelled, dibs.Cancelled, dibs.Cancelled}, 0, true, true},
}

// outcomesTable compares the effect of each outcome in the store with outcomeRows, and with
// the result of dibs.RawJob.After.
func outcomesTable(t *test) {
	t.set(dibs.DefaultQueue, dibs.QueueChange{Backoff: &dibs.Backoff{Base: time.Hour, Factor: 2, Max: time.Hour}})
	for _, row := range outcomeRows {
		for i, want := range row.states {
			id := t.enqueue(dibs.NewJob{Kind: "k", MaxAttempts: 2 - i%2})[0]
			j := t.claimOne(dibs.ClaimRequest{})
			equal(t, "claimed job", j.ID, id)
			if i >= 2 {
				t.cancel(id)
				j.CancelRequested = true
			}
			o := j.Lease().Retry("e")
			switch o.Ending = row.ending; o.Ending {
			case dibs.EndCompleted, dibs.EndRelease:
				o.Error = ""
			case dibs.EndSnooze:
				o.Error, o.Delay = "", new(row.delay)
			}
			equal(t, "After says", j.After(o), want)
			equal(t, "LeavesError says", o.LeavesError(), row.error)
			t.finish(o)
			got := t.get(id)
			equal(t, string(row.ending)+": state", got.State, want)
			equal(t, string(row.ending)+": errors", len(got.Errors), map[bool]int{true: 1}[row.error])
			if row.error {
				t.attemptOf(got.Errors[0], j)
			}
			if want != dibs.Waiting {
				continue
			}
			equal(t, string(row.ending)+": excused", got.Excused, map[bool]int{false: 1}[row.counts])
			near(t, string(row.ending)+": wait", got.RunAt.Sub(j.RunAt).Round(time.Hour), row.delay)
			t.cancel(id)
		}
	}
}
