package torture

import (
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/linear"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// Result holds the verdicts on a run and its figures.
type Result struct {
	About
	Dir      string // the folder of the histories
	Verdicts []history.Verdict
	Orders   Orders
	Totals   Totals
	Demo     *Demo  // nil: the run was no demo
	Story    *Story // the story of the job that shows a broken promise, or else of the most troubled job
}

// Orders is the opinion of a general checker of linearizability, which looks for an order of
// all calls about a job that explains every answer.
type Orders struct {
	Checked   int // jobs for which it came to a result
	Undecided int // jobs with too many possible orders, or with an attempt of an unanswered claim
	Broken    []history.Violation
}

// Totals counts what the clients did. An operation is the part of a call that concerns one job.
type Totals struct {
	Operations int `json:"operations"`
	Calls      int `json:"calls"`
	Unanswered int `json:"unanswered"` // calls without an answer
	Enqueued   int `json:"enqueued"`
	Claimed    int `json:"claimed"`
	Finished   int `json:"finished"`
	Refused    int `json:"refused"` // extensions and outcomes for which the lease was lost
	Others     int `json:"others"`  // extensions, steps, cancels, requeues and edits

	Followers int `json:"followers"` // Enqueued counts them too: jobs that come after others
	Added     int `json:"added"`     // Enqueued counts them too: jobs that outcomes add
	Steps     int `json:"steps"`     // steps written, or tried

	// Recoveries are the times from the end of an abandoned lease to the next claim of the
	// job. Unhindered are the recoveries that nothing held up.
	Recoveries, Unhindered Times `json:"-"`
}

// Times are durations, shortest first.
type Times []time.Duration

// Quantile returns the time that the share q of all times does not exceed.
func (t Times) Quantile(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[min(int(q*float64(len(t))), len(t)-1)]
}

// Kept reports whether every promise was kept.
func (r *Result) Kept() bool {
	return !slices.ContainsFunc(r.Rows(), func(row Row) bool { return !row.Kept })
}

// BrokenText says how many violations there are. The judge keeps at most MaxBroken of them.
func BrokenText(n int) string {
	if n >= history.MaxBroken {
		return fmt.Sprintf("%d or more broken", history.MaxBroken)
	}
	return fmt.Sprintf("%d broken", n)
}

// Offence returns the violation that the fewest calls show, or nil.
func (r *Result) Offence() *history.Violation {
	var first *history.Violation
	consider := func(all []history.Violation) {
		for i := range all {
			n := len(all[i].Calls)
			if first == nil || n > 0 && (len(first.Calls) == 0 || n < len(first.Calls)) {
				first = &all[i]
			}
		}
	}
	for i := range r.Verdicts {
		consider(r.Verdicts[i].Broken)
	}
	consider(r.Orders.Broken)
	return first
}

// tried lists the verdicts on what the run tries. A demo has no fair queue.
func (r *Result) tried() []history.Verdict {
	if r.Demo == nil {
		return r.Verdicts
	}
	return slices.DeleteFunc(slices.Clone(r.Verdicts), func(v history.Verdict) bool { return v.Promise == history.FairTurns })
}

// untried lists the promises for which there was nothing to check.
func (r *Result) untried() (numbers []int) {
	for _, v := range r.tried() {
		if v.Checked == 0 && len(v.Broken) == 0 && (r.Demo == nil || mustNotHappen[v.Number] != "") {
			numbers = append(numbers, v.Number)
		}
	}
	return numbers
}

// Summary returns the verdict in one line.
func (r *Result) Summary() string {
	untried := r.untried()
	switch {
	case !r.Kept():
		return "a promise was broken"
	case len(untried) == 0:
		return "every promise was kept"
	case len(untried) == 1:
		return fmt.Sprintf("no promise was broken, but number %d was not tried", untried[0])
	}
	return fmt.Sprintf("no promise was broken, but %d of %d were not tried", len(untried), len(r.Verdicts))
}

// judgeEvidence judges the evidence and counts its figures.
func judgeEvidence(about About, dir string, e history.Evidence) *Result {
	result := &Result{About: about, Dir: dir, Verdicts: history.Judge(e), Totals: count(e.Calls)}
	result.Orders.Checked, result.Orders.Undecided, result.Orders.Broken = linear.Check(e)
	result.Totals.Recoveries, result.Totals.Unhindered = history.Recoveries(e)
	job := int64(0)
	if v := result.Offence(); v != nil {
		job = v.Job
	} else {
		job = mostTroubled(e.Calls)
	}
	if job != 0 {
		result.Story = newStory(e.Calls, job)
	}
	return result
}

// count adds up what the clients did.
func count(calls []*history.Call) Totals {
	t := Totals{Calls: len(calls)}
	for _, c := range calls {
		if c.Fate == history.Unknown {
			t.Unanswered++
		}
		switch c.Verb {
		case history.Enqueue: // counted below
		case history.Claim, history.Resume:
			t.Claimed += len(c.Jobs)
		case history.Finish:
			t.Finished += len(c.Outcomes)
		case history.Ended: // another program's call
		default:
			t.Others += len(c.Leases) + len(c.IDs)
		}
		t.Enqueued += len(c.New)
		for i := range c.New {
			if len(c.New[i].After) > 0 {
				t.Followers++
			}
			if c.New[i].By != 0 {
				t.Added++
			}
		}
		if c.Verb == history.PutStep {
			t.Steps++
		}
		t.Refused += len(c.Refused)
	}
	t.Operations = t.Enqueued + t.Claimed + t.Finished + t.Others
	return t
}
