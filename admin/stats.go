package admin

import "time"

// ScheduledCap is how many scheduled jobs of a queue are counted: statistics stop there.
const ScheduledCap = 10_000

// QueueStats counts one queue. Counters are kept in the same transactions as the
// jobs they count, so they are exact; reading them costs the same whatever the
// queue's length.
type QueueStats struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused"`
	// HeldUntil is when the queue's rate lets the next job start, if that is not now; else zero.
	HeldUntil time.Time `json:"held_until,omitzero"`
	// HeldGroups counts the groups whose rates hold jobs up, as far as 1,000.
	HeldGroups int64 `json:"held_groups,omitempty"`

	Waiting   int64 `json:"waiting"`   // due or not, unclaimed, not blocked
	Scheduled int64 `json:"scheduled"` // waiting jobs whose RunAt has not come, up to ScheduledCap
	Blocked   int64 `json:"blocked"`   // jobs that wait for their turns in their groups
	Running   int64 `json:"running"`
	Completed int64 `json:"completed"` // kept ones; retention deletes them
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`

	// ScheduledMore is true when more are scheduled: counting stops at ScheduledCap.
	ScheduledMore bool `json:"scheduled_more,omitempty"`

	// Miscounted is true when the counts cannot be right: rows were inserted or deleted by SQL.
	// The next upkeep of a worker counts anew, within about a minute; so does
	// dibs check --repair.
	Miscounted bool `json:"miscounted,omitempty"`

	OldestAge time.Duration `json:"oldest_age"` // how long the oldest due, unclaimed job has been due; 0: none

	Window     time.Duration `json:"window"`     // the time that the figures below cover: about the last 5 minutes
	Enqueued   int64         `json:"enqueued"`   // jobs, in the window
	Claimed    int64         `json:"claimed"`    // attempts started
	Succeeded  int64         `json:"succeeded"`  // attempts that completed their job
	Failed     int64         `json:"failed"`     // attempts that ended in retry or dead, or whose lease ended, unless that cancelled the job
	AvgWait    time.Duration `json:"avg_wait"`   // mean time from RunAt to the claim, over Claimed
	AvgRun     time.Duration `json:"avg_run"`    // mean time from the claim to the finish, over Succeeded+Failed
	Throughput float64       `json:"throughput"` // Succeeded per second
}

// HistoryKept is how far back Admin.History reaches.
const HistoryKept = 2 * time.Hour

// Minute counts what happened within a minute in a queue. Attempts and jobs count where they
// begin or end, at the time of the database.
type Minute struct {
	Queue string    `json:"queue,omitempty"` // empty: all queues together
	At    time.Time `json:"at"`              // when the minute began

	Enqueued  int64         `json:"enqueued"`  // jobs
	Claimed   int64         `json:"claimed"`   // attempts started
	Succeeded int64         `json:"succeeded"` // attempts that completed their job
	Failed    int64         `json:"failed"`    // attempts that ended in retry or dead, or whose lease ended, unless that cancelled the job
	Died      int64         `json:"died"`      // jobs that became dead, kept or not
	AvgWait   time.Duration `json:"avg_wait"`  // mean time from RunAt to the claim, over Claimed
	AvgRun    time.Duration `json:"avg_run"`   // mean time from the claim to the finish, over Succeeded+Failed
}

// MaxChanges is about how many changes are kept that NoteChange has noted.
const MaxChanges = 10_000

// Change is something that a person has changed, as by the pages and the API of 'dibs serve', or by the command.
type Change struct {
	At   time.Time `json:"at"`   // set by the store
	Who  string    `json:"who"`  // such as the name of a token; empty: somebody without a token
	Did  string    `json:"did"`  // such as pause
	What string    `json:"what"` // such as queue mail
	N    int       `json:"n"`    // how many jobs, queues or settings it has changed
}

// Backlog is how many jobs of a group wait for its turn.
type Backlog struct {
	Group   string `json:"group"`
	Places  int    `json:"places"`  // jobs that run, or are the next to be claimed
	Blocked int    `json:"blocked"` // jobs that wait for these; of each, up to 1,000 are counted
}

// MaxBacklogs is how many groups Admin.Backlogs lists at most.
const MaxBacklogs = 500
