package dibs

import (
	"math"
	"reflect"
	"time"
)

// Order is the order in which a queue's due jobs are claimed.
type Order string

const (
	FIFO Order = "fifo" // sorted by (priority, run_at, id): oldest first. The default
	LIFO Order = "lifo" // sorted by priority, then newest first
)

// Backoff is the delay before a retry. After the n-th counted attempt it is
//
//	min(Max, Base * Factor^(n-1)) * (1 + Jitter*u),  u uniform in [-1, 1)
//
// Jitter keeps jobs that failed together from returning together.
type Backoff struct {
	Base   time.Duration `json:"base"`   // default 1 s
	Factor float64       `json:"factor"` // default 2
	Max    time.Duration `json:"max"`    // default 1 h
	Jitter float64       `json:"jitter"` // 0 to 1, default 0.25
}

// Delay is the delay after the n-th counted attempt, for a u from -1 to 1.
func (b Backoff) Delay(n int, u float64) time.Duration {
	if b.Base <= 0 {
		return 0
	}
	d := min(float64(b.Max), float64(b.Base)*math.Pow(b.Factor, float64(max(n, 1)-1)))
	if d *= 1 + b.Jitter*u; d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}

// Queue is a queue's settings. They are stored in the database, and every process
// that uses the queue follows a change at its next call. A queue without settings of
// its own has DefaultSettings.
type Queue struct {
	Name   string `json:"name"`
	Paused bool   `json:"paused"` // claims find nothing; enqueueing and finishing go on

	Concurrency int  `json:"concurrency"`   // jobs running at once over all workers; 0: no limit; 1: serialised
	Rate        Rate `json:"rate,omitzero"` // of starts; default no limit
	GroupLimit  int  `json:"group_limit"`   // jobs of one group running at once; default 1
	// GroupRate is the rate of starts of each group that has no Rate of its own, of groups that
	// are new too; default no limit.
	GroupRate Rate  `json:"group_rate,omitzero"`
	Strict    bool  `json:"strict"` // a job waiting for its retry holds its place in its group
	Order     Order `json:"order"`

	Lease       time.Duration `json:"lease"`        // default 10 s
	JobTimeout  time.Duration `json:"job_timeout"`  // how long an attempt may run; 0: no limit. See Extended.TimedOut
	MaxAttempts int           `json:"max_attempts"` // default 25
	Backoff     Backoff       `json:"backoff"`

	// How long finished jobs stay readable. 0: deleted at once.
	KeepCompleted time.Duration `json:"keep_completed"` // default 24 h
	KeepDead      time.Duration `json:"keep_dead"`      // default 14 days
	KeepCancelled time.Duration `json:"keep_cancelled"` // default 24 h

	PayloadLimit int `json:"payload_limit"` // bytes, default MaxPayload
}

// DefaultSettings are the settings of a queue that nobody has changed.
func DefaultSettings(name string) Queue {
	return Queue{
		Name:          name,
		GroupLimit:    1,
		Order:         FIFO,
		Lease:         10 * time.Second,
		MaxAttempts:   25,
		Backoff:       Backoff{Base: time.Second, Factor: 2, Max: time.Hour, Jitter: 0.25},
		KeepCompleted: 24 * time.Hour,
		KeepDead:      14 * 24 * time.Hour,
		KeepCancelled: 24 * time.Hour,
		PayloadLimit:  MaxPayload,
	}
}

// QueueChange changes the settings it names; nil fields stay as they are. Its Apply is a function for ChangeQueue:
//
//	store.ChangeQueue(ctx, "emails", dibs.QueueChange{Concurrency: new(5)}.Apply)
type QueueChange struct {
	Paused        *bool
	Concurrency   *int
	Rate          *Rate
	GroupLimit    *int
	GroupRate     *Rate
	Strict        *bool
	Order         *Order
	Lease         *time.Duration
	JobTimeout    *time.Duration
	MaxAttempts   *int
	Backoff       *Backoff
	KeepCompleted *time.Duration
	KeepDead      *time.Duration
	KeepCancelled *time.Duration
	PayloadLimit  *int
}

// Apply changes the settings that c names. It only fails if q is nil.
func (c QueueChange) Apply(q *Queue) error {
	if q == nil {
		return &InvalidError{"queue", "is nil"}
	}
	apply(c, q)
	return nil
}

// apply sets each field that a change names, whose fields are pointers to those of the settings.
func apply(change, settings any) {
	from, to := reflect.ValueOf(change), reflect.ValueOf(settings).Elem()
	for i := range from.NumField() {
		if v := from.Field(i); !v.IsNil() {
			to.FieldByName(from.Type().Field(i).Name).Set(v.Elem())
		}
	}
}

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

	// Miscounted is true when the counts cannot be right, as somebody has inserted or deleted rows
	// with SQL. The next upkeep of a worker counts anew, within about a minute; so does
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
