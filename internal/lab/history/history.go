// Package history records every call of every client of a queue, with its answer. Afterwards
// it judges whether the promises of docs/guarantees.md were kept, only from these records
// and from what is in the database at the end. It knows the promises, but not how a store
// keeps them.
//
// A [Recorder] appends to one file per client; what a client has written survives its
// SIGKILL. If the file holds the beginning of a call but not its end, the call may or may
// not have taken effect, and the judgement allows both.
//
// There are two clocks. Begin and End are times of the clients' clock: all clients run on
// one machine. The times of jobs are the database's. Every claim relates the two: its
// ClaimedAt lies between its Begin and its End, which bounds how far the clocks differ.
package history

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// Verb names what a call does.
type Verb string

const (
	Enqueue  Verb = "enqueue"
	Claim    Verb = "claim"
	Extend   Verb = "extend"
	Finish   Verb = "finish"
	Resume   Verb = "resume"
	Sweep    Verb = "sweep"
	Cancel   Verb = "cancel"
	Requeue  Verb = "requeue"
	Edit     Verb = "edit"
	Prune    Verb = "prune"
	SetQueue Verb = "set_queue"
	SetGroup Verb = "set_group"
	PutStep  Verb = "put_step" // a worker writes that a step is done
	Steps    Verb = "steps"    // a worker asks which steps are done
	Ended    Verb = "ended"    // another program ended rows of an adopted table
	Commit   Verb = "commit"   // the caller commits the transaction Tx
	Rollback Verb = "rollback" // the caller rolls back the transaction Tx
	// Fault records what the test did to a client or to the server: a kill, a stop, a cut
	// connection, a held snapshot. A Text that begins with "killed" means that the client
	// ended; with "server", that the database was away during the fault.
	Fault Verb = "fault"
)

// Fate says what a call's answer means for its effect.
type Fate string

const (
	Done    Fate = "done"    // the call took effect, except for the jobs in Refused
	Nothing Fate = "nothing" // the call failed and certainly changed nothing
	Unknown Fate = "unknown" // there was no answer, or the answer leaves the effect open
)

// Call is one call of one client.
type Call struct {
	Client string // unique in the history: a restarted process has another name
	Number int    // counts the calls of this client from 1
	Verb   Verb
	Tx     string // the caller's transaction that the call belongs to; empty: none
	Begin  time.Time
	End    time.Time // zero if the call has no answer
	Fate   Fate
	Error  string

	Queue  string // claim, resume, prune, set_queue, set_group
	Worker string // claim and resume: the worker's name; fault: the client that it hit, if any
	Want   int    // claim: how many jobs were asked for
	Ahead  int    // claim: how many of the jobs asked for are to be ahead, which a store need not give
	Kinds  bool   // claim: only jobs of some kinds were asked for
	Lease  time.Duration

	New      []New          // enqueue: the jobs asked for; finish: the jobs that its outcomes add
	Jobs     []Job          // claim and resume: the jobs returned
	Leases   []dibs.Lease   // extend: all leases, except those that another call was finishing; put_step, steps: the one
	Steps    []Step         // put_step: the step; steps: those that were done
	Outcomes []dibs.Outcome // finish: all outcomes, except those that were certainly not written
	leftOut  []int64        // jobs that Leases or Outcomes omit because of the answer
	IDs      []int64        // cancel, requeue, edit, ended: the jobs asked for
	Changed  []int64        // cancel, requeue, edit, ended: the jobs that the call changed
	Asked    []int64        // cancel: the running jobs in Changed, whose workers were asked to stop
	Refused  []int64        // finish, extend, put_step and steps: the jobs whose leases were lost
	Group    string         // set_group
	// Settings are what set_queue, and Limit and Rate what set_group changes, whether it is known that it did or not;
	// nil: as it was.
	Settings *dibs.QueueChange
	Limit    *int
	Rate     *dibs.Rate
	Text     string // fault: its description
}

// New is one job of an enqueue call. Key is part of its payload and unique in the history,
// so that a job can be recognised although its enqueue call had no answer.
type New struct {
	Key         string
	Sum         uint32 // checksum of the payload
	ID          int64  // answer: the job's id
	Existing    bool   // answer: another job held the unique key
	Queue       string
	Group       string
	UniqueKey   string
	UniqueUntil dibs.UniqueUntil
	Priority    int
	Delay       time.Duration
	RunAt       time.Time // an alternative to Delay
	MaxAttempts int       // 0: the queue's setting
	Ref         string
	After       []dibs.Dep
	By          int64 // finish: the job whose outcome adds it
}

// Step is one step of a job that is done.
type Step struct {
	Name string `json:"n"`
	Sum  uint32 `json:"s"` // checksum of its value
}

// Job is one job as a claim returned it.
type Job struct {
	ID          int64
	Key         string
	Sum         uint32 // checksum of the payload
	Token       dibs.Token
	Attempt     int
	Excused     int
	MaxAttempts int
	Priority    int
	Group       string
	RunAt       time.Time
	ClaimedAt   time.Time
	LeaseUntil  time.Time
}

// Evidence is everything that a judgement is based on.
type Evidence struct {
	Calls []*Call
	// Final holds every job that is in the database at the end, in any state. By then all
	// faults are over and live workers have had time to finish all jobs.
	Final []*dibs.RawJob
	// Effects counts, for each job, the effects written in transactions that finished it. For
	// an adopted table, it counts how often each row has ended.
	Effects map[int64]int
	// Check lists the findings of the store's own check of the database.
	Check []string
	// Queues are the queues' settings at the start.
	Queues []dibs.Queue
	// Groups are the groups' own limits at the start, by queue and group.
	Groups map[string]map[string]int
	// Slack is how much later than promised claims may be on this database and machine.
	Slack time.Duration
	// OrderSlack is how long claims may pass over a job that could be claimed.
	OrderSlack time.Duration
	// ClaimsAtOnce is true for a database in which claims do not see each other's changes before the commit.
	// Before a new group's job, a group that gets places meanwhile may then start a job in each of them.
	ClaimsAtOnce bool
	// LeaseSlack is how much longer than reported leases may last, and how much shorter than
	// an extension asked for, if the database rounds their times.
	LeaseSlack time.Duration
	// ReleasesCount is true for an adopted table that cannot take back the count of an attempt:
	// a row whose last attempt is released or snoozed ends as dead.
	ReleasesCount bool
}

// Verdict is the judgement on one promise.
type Verdict struct {
	Number  int    // its number in docs/guarantees.md
	Promise string // its text in docs/guarantees.md
	Checked int    // how many cases were examined; none proves nothing
	Broken  []Violation
}

// Violation is one case in which a promise was broken.
type Violation struct {
	Job  int64 // 0: the violation is not about a single job
	Text string
	// Calls is the shortest part of the history that shows the violation, in the order of Begin.
	Calls []*Call
}
