// Package history records what every client of a queue asked and was told, and
// judges afterwards, from those records and what is left in the database alone,
// whether the promises of docs/guarantees.md were kept. It knows what was promised,
// and nothing of how a store keeps it.
//
// A [Recorder] appends to one file per client; what a client has written survives
// its SIGKILL. A call that began and has no end in the file is one whose answer
// nobody got: it may or may not have taken effect, and the judgement allows both.
//
// Two clocks occur. Begin and End are read by the client, on the machine that runs
// all clients. The times inside of jobs are the database's. Every claim ties the
// two: its ClaimedAt lies between its Begin and its End, which bounds by how much
// the clocks differ.
package history

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// Verb is what was asked for.
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
	Ended    Verb = "ended"    // another program ended rows of an adopted table
	Commit   Verb = "commit"   // the caller commits the transaction Tx
	Rollback Verb = "rollback" // the caller rolls back the transaction Tx
	// Fault is what was done to a client or the server, written by who did it:
	// a kill, a stop, a cut, a held snapshot. Text tells which: "killed…" ends the
	// client, and "server…" says that the database was away meanwhile.
	Fault Verb = "fault"
)

// Fate is what a call's answer says about its effect.
type Fate string

const (
	Done    Fate = "done"    // it took effect, but for what Refused lists
	Nothing Fate = "nothing" // it failed and certainly changed nothing
	Unknown Fate = "unknown" // there was no answer, or one that leaves it open
)

// Call is one call of one client.
type Call struct {
	Client string // unique over the whole history: a restarted process has another
	Number int    // counts the calls of this client from 1
	Verb   Verb
	Tx     string // the caller's transaction that it belongs to; empty: none
	Begin  time.Time
	End    time.Time // zero while nothing has come back
	Fate   Fate
	Error  string

	Queue  string // claim, resume, prune, set_queue, set_group
	Worker string // claim and resume: the name of who asked; fault: the client that it hit, if one
	Want   int    // claim: how many were asked for
	Kinds  bool   // claim: only some kinds were asked for
	Lease  time.Duration

	New      []New          // enqueue: the jobs asked for
	Jobs     []Job          // what claim and resume gave
	Leases   []dibs.Lease   // extend: all leases but those that were just being finished
	Outcomes []dibs.Outcome // finish: all outcomes but those that were certainly not written
	left     []int64        // those of Leases or Outcomes that the answer left out
	IDs      []int64        // cancel, requeue, edit, ended: the jobs asked for
	Changed  []int64        // cancel, requeue, edit, ended: the jobs that it changed
	Asked    []int64        // cancel: the running ones among Changed, whose holders were asked to stop
	Refused  []int64        // finish and extend: leases that were lost
	Settings *dibs.QueueChange
	Group    string // set_group
	Limit    int    // set_group
	Text     string // fault: what was done
}

// New is one job of an enqueue call. Key is part of its payload and unique over the
// history, so that a job whose enqueuer got no answer can be recognised.
type New struct {
	Key         string
	Sum         uint32 // checksum of the payload
	ID          int64  // from the answer
	Existing    bool   // from the answer: another job held the unique key
	Queue       string
	Group       string
	UniqueKey   string
	UniqueUntil dibs.UniqueUntil
	Priority    int
	Delay       time.Duration
	RunAt       time.Time // as an alternative to Delay
	MaxAttempts int       // 0: the queue's
}

// Job is one job as a claim gave it.
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

// Evidence is all that a judgement is made from.
type Evidence struct {
	Calls []*Call
	// Final is every job that is in the database at the end, in any state, when all
	// faults are over and live workers have had the time to finish what there was.
	Final []*dibs.RawJob
	// Effects counts, for each job, the effects written in finishing transactions. Of adopted
	// tables, it counts how often each row has ended.
	Effects map[int64]int
	// Check is what the store's own check of the database found.
	Check []string
	// Queues are the settings at the start.
	Queues []dibs.Queue
	// Groups are the groups' own limits at the start, by queue and group.
	Groups map[string]map[string]int
	// Slack is by how much claims may be late on this database and machine, beyond
	// what is promised exactly.
	Slack time.Duration
	// OrderSlack is how long a job that could be claimed may be passed over.
	OrderSlack time.Duration
	// LeaseSlack is by how much leases may last longer than told, and shorter than asked for by
	// an extension, where the database keeps their times less exactly.
	LeaseSlack time.Duration
}

// Verdict is what came out for one promise.
type Verdict struct {
	Number  int    // as in docs/guarantees.md
	Promise string // in its words
	Checked int    // how many cases were looked at; none is not a proof
	Broken  []Violation
}

// Violation is one case in which a promise was broken.
type Violation struct {
	Job  int64 // 0: no single job
	Text string
	// Calls is the shortest part of the history that shows it, in the order of Begin.
	Calls []*Call
}
