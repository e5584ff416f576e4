// Package interleave runs small programs of a few actors (workers, a sweeper, an
// operator) against a real database in every order in which their statements can
// come, and checks docs/guarantees.md after each step. It is for the tests of the
// stores.
//
// A test gives a [Bench]: stores whose statements stop before they are sent, until
// the scheduler lets them go; a clock that moves only when a program says so; and a
// look at what is committed. Nothing waits in real time, so a run is repeated exactly
// by the list of choices that made it.
package interleave

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
)

// Queue is the queue that all programs use.
const Queue = "q"

// Bench is a database under test, for one program at a time.
type Bench interface {
	// Reset empties the database, but for an unused Queue. Until Start nothing stops.
	Reset(ctx context.Context) error
	// Start makes the stores forget what they remembered, but for the queue as it
	// is. From then on stop is to be called before each statement that an actor
	// sends; when it returns false, the statement must fail.
	Start(ctx context.Context, stop func(actor int, step Step) bool) error
	// Finish ends what Start began: nothing stops any more.
	Finish()
	// Store is the store of one actor, in a process of its own as far as the
	// database can tell; -1 is one whose statements do not stop.
	Store(actor int) dibs.Database
	// PerCall says that a call is one statement as far as others can tell: actors
	// then stop before calls by themselves.
	PerCall() bool
	// Blocked lists the actors that hold a lock for which this one waits.
	Blocked(ctx context.Context, actor int) ([]int, error)
	// Pass moves the database's clock.
	Pass(ctx context.Context, d time.Duration) error
	// Look reads what is committed.
	Look(ctx context.Context) (State, error)
}

// State is what is committed: jobs that are live, the final ones, and the settings
// that decide who may run.
type State struct {
	Now         time.Time // on the database's clock
	Jobs        map[int64]Job
	Final       map[int64]dibs.State
	Paused      bool
	Concurrency int
	GroupLimit  int
	Strict      bool
	Forgets     bool           // completed jobs are deleted at once
	Groups      map[string]int // limits of their own
}

// Job is what decides over a live job.
type Job struct {
	ID         int64
	Token      dibs.Token // zero: nobody has claimed it
	LeaseUntil time.Time
	RunAt      time.Time
	Attempt    int
	Priority   int
	Group      string
	Cancel     bool // cancelling was asked for
	Key        string
	HoldsKey   bool
}

// claimed reports whether somebody has the job.
func (j Job) claimed() bool { return !j.Token.IsZero() }

// before is the order of claims.
func (j Job) before(k Job) bool {
	if j.Priority != k.Priority {
		return j.Priority < k.Priority
	}
	if !j.RunAt.Equal(k.RunAt) {
		return j.RunAt.Before(k.RunAt)
	}
	return j.ID < k.ID
}

func (s State) groupLimit(group string) int {
	if n, ok := s.Groups[group]; ok {
		return n
	}
	return s.GroupLimit
}

// running counts a group's running jobs, or with "" all.
func (s State) running(group string) (n int) {
	for _, j := range s.Jobs {
		if j.claimed() && (group == "" || j.Group == group) {
			n++
		}
	}
	return n
}
