package admin

import "time"

// Times are how long the last completed jobs of a queue waited and ran: of up to TimesOf jobs that
// the queue still keeps. A queue that keeps no completed jobs has none.
type Times struct {
	Jobs  int         `json:"jobs"`           // how many they are
	Since time.Time   `json:"since,omitzero"` // when the first job ended
	Wait  Percentiles `json:"wait"`           // from the job's RunAt to the start of its last attempt
	Run   Percentiles `json:"run"`            // from there to its end
}

// TimesOf is how many jobs Admin.Times looks at.
const TimesOf = 1000

// Percentiles are the times that half of the jobs, 95 % and 99 % of them do not exceed.
type Percentiles struct {
	P50 time.Duration `json:"p50"`
	P95 time.Duration `json:"p95"`
	P99 time.Duration `json:"p99"`
}

// MaxFailures is how many dead jobs Admin.Failures lists at most.
const MaxFailures = 10_000

// FailureFilter selects dead jobs for Admin.Failures.
type FailureFilter struct {
	Queues []string // their names; those that do not exist have no jobs
	Limit  int      // how many of each queue; for all queues together up to MaxFailures; 0: as many as that allows
	Before *Failure // if not nil, only jobs that come after this one in the list, whether it is still dead or not
}

// Failure is how a dead job has ended.
type Failure struct {
	ID      int64     `json:"id"`
	Queue   string    `json:"queue"`
	Kind    string    `json:"kind"`
	At      time.Time `json:"at"`      // when it died
	Attempt int       `json:"attempt"` // how often it was claimed
	Error   string    `json:"error"`   // its last error; of more than 1,000 characters, the first 600 and the last 400
}
