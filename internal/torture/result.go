package torture

import (
	"time"

	"github.com/dibs-queue/dibs/internal/history"
)

// Result is what came out.
type Result struct {
	Seed     uint64
	Took     time.Duration
	Workers  int
	Dir      string // of the histories
	Verdicts []history.Verdict
	Orders   Orders
	Totals   Totals
	Faults   map[string]int // by name
	Story    *Story         // of the job to look at: the first offending one, else the most troubled
}

// Orders is a second opinion, of a general checker of linearizability: jobs for which
// one order of all calls explains every answer.
type Orders struct {
	Checked   int // jobs
	Undecided int // jobs with an attempt that nobody was told of, or too many orders
	Broken    []history.Violation
}

// Totals counts what the clients did. An operation is what was done to one job.
type Totals struct {
	Operations int `json:"operations"`
	Calls      int `json:"calls"`
	Unanswered int `json:"unanswered"` // calls whose answer nobody got
	Enqueued   int `json:"enqueued"`
	Claimed    int `json:"claimed"`
	Finished   int `json:"finished"`
	Refused    int `json:"refused"` // extensions and outcomes for which the lease was lost
	Others     int `json:"others"`  // extensions, cancels, requeues and edits
	// Recoveries are the times from the end of an abandoned lease to the next claim of
	// the job, shortest first.
	Recoveries []time.Duration `json:"-"`
}

// Kept reports whether every promise was.
func (r *Result) Kept() bool { return r.Offence() == nil }

// Offence is the violation with the shortest history, or nil.
func (r *Result) Offence() *history.Violation {
	var first *history.Violation
	shorter := func(all []history.Violation) {
		for i := range all {
			if first == nil || len(all[i].Calls) < len(first.Calls) {
				first = &all[i]
			}
		}
	}
	for i := range r.Verdicts {
		shorter(r.Verdicts[i].Broken)
	}
	shorter(r.Orders.Broken)
	return first
}

// Quantile is the recovery time that the part q of all recoveries does not exceed.
func (t *Totals) Quantile(q float64) time.Duration {
	n := len(t.Recoveries)
	if n == 0 {
		return 0
	}
	return t.Recoveries[min(int(q*float64(n)), n-1)]
}

func (r *run) result(e history.Evidence, took time.Duration) *Result {
	result := &Result{
		Seed: r.Seed, Took: took, Workers: r.Workers, Dir: r.Dir, Faults: r.counts,
		Verdicts: history.Judge(e), Totals: count(e.Calls),
	}
	result.Orders.Checked, result.Orders.Undecided, result.Orders.Broken = history.Linearizable(e)
	result.Totals.Recoveries = history.Recoveries(e)
	job := int64(0)
	if v := result.Offence(); v != nil {
		job = v.Job
	} else {
		job = mostTroubled(e.Calls)
	}
	if job != 0 {
		result.Story = tell(e.Calls, job)
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
		case history.Enqueue:
			t.Enqueued += len(c.New)
		case history.Claim, history.Resume:
			t.Claimed += len(c.Jobs)
		case history.Finish:
			t.Finished += len(c.Outcomes)
		default:
			t.Others += len(c.Leases) + len(c.IDs)
		}
		t.Refused += len(c.Refused)
	}
	t.Operations = t.Enqueued + t.Claimed + t.Finished + t.Others
	return t
}
