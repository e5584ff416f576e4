package admin

import "github.com/dibs-queue/dibs"

// Flow is a job among those that it comes after, and those that come after it.
type Flow struct {
	ID     int64      `json:"id"`
	Flow   int64      `json:"flow,omitempty"` // its RawJob.Flow; 0: no job of its call comes after another
	State  dibs.State `json:"state"`
	Before []FlowRow  `json:"before"` // the jobs that it comes after
	After  []FlowRow  `json:"after"`  // the jobs that come after it, without theirs
	All    []FlowRow  `json:"all"`    // the jobs with the same Flow, this one among them
	Open   []int64    `json:"open"`   // those jobs of Before that have not ended: the first MaxOpen, by id
	// Needs says of each job of Open how it has to end, so that this one starts.
	Needs []dibs.Need `json:"needs"`
	// Caused counts jobs that were cancelled because of it: a Requeue of it puts them back. If it is completed, these needed
	// its failure.
	Caused int64 `json:"caused"`
	// Lost are some jobs of All that are dead, then some that were cancelled, though they were needed: the first of each
	// queue, kind and state, MaxOpen at most.
	Lost []int64 `json:"lost,omitempty"`
	// More is true if there are too many queues, kinds and states to count: the rows have the largest counts only.
	More bool `json:"more,omitempty"`
}

// FlowRow counts jobs of one queue and kind. Ended jobs that were deleted are not counted.
type FlowRow struct {
	Queue     string `json:"queue"`
	Kind      string `json:"kind"`
	First     int64  `json:"first"` // the least id of the jobs that are counted
	Waiting   int64  `json:"waiting"`
	Blocked   int64  `json:"blocked"`
	Running   int64  `json:"running"`
	Completed int64  `json:"completed"`
	Dead      int64  `json:"dead"`
	Cancelled int64  `json:"cancelled"`
	// Unneeded counts jobs that were cancelled because a job of which they need the failure was completed. They are
	// not counted as Cancelled.
	Unneeded int64 `json:"unneeded"`
}

// unneeded is in Flow's rows the state of jobs that FlowRow.Unneeded counts.
const unneeded dibs.State = "unneeded"

// Add counts n more jobs in a state. Stores use it; to them "unneeded" is a state too.
func (r *FlowRow) Add(s dibs.State, n int64) {
	*r.of(s) += n
}

func (r *FlowRow) of(s dibs.State) *int64 {
	switch s {
	case unneeded:
		return &r.Unneeded
	case dibs.Blocked:
		return &r.Blocked
	case dibs.Running:
		return &r.Running
	case dibs.Completed:
		return &r.Completed
	case dibs.Dead:
		return &r.Dead
	case dibs.Cancelled:
		return &r.Cancelled
	}
	return &r.Waiting
}

// SumOf adds the counts of rows up.
func SumOf(rows []FlowRow) (sum FlowRow) {
	for _, r := range rows {
		sum.Waiting += r.Waiting
		sum.Blocked += r.Blocked
		sum.Running += r.Running
		sum.Completed += r.Completed
		sum.Dead += r.Dead
		sum.Cancelled += r.Cancelled
		sum.Unneeded += r.Unneeded
	}
	return sum
}

// Ended counts the jobs that have ended.
func (r FlowRow) Ended() int64 { return r.Completed + r.Dead + r.Cancelled + r.Unneeded }

// Jobs counts all jobs.
func (r FlowRow) Jobs() int64 { return r.Waiting + r.Blocked + r.Running + r.Ended() }

const (
	// MaxOpen is how many ids Flow.Open has at most; so has Flow.Lost.
	MaxOpen = 10
	// FollowersCap is how many jobs Admin.Followers counts at most.
	FollowersCap = 10_000
)
