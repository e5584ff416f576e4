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
	// Fair has the groups of the queue take turns: each starts one job, the first of its due jobs by
	// (priority, run_at, id), before another of them starts its next. Jobs without a group start
	// when no job with a group can.
	Fair Order = "fair"
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
