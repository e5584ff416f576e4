// Package interleave runs small programs of a few actors (workers, a sweeper, an
// operator) against a real database in every order in which their statements can
// come, and checks docs/guarantees.md after each step. The tests of the stores use it.
//
// A test provides a [Bench]: stores that stop before each statement until the scheduler
// sends it on; a clock that moves only when a program says so; and a view of the
// committed rows. Nothing waits in real time, so the list of the scheduler's choices
// repeats a run exactly.
package interleave

import (
	"context"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Queue is the queue that all programs use.
const Queue = "q"

// Bench is a database under test, for one program at a time.
type Bench interface {
	// Reset empties the database and creates Queue. No statement stops before Start.
	Reset(ctx context.Context) error
	// Start empties the stores' caches, except for the queue's present settings. From
	// then on the stores call stop before each statement that an actor sends; when it
	// returns false, the statement must fail.
	Start(ctx context.Context, stop func(actor int, step Step) bool) error
	// Finish ends what Start began: statements no longer stop.
	Finish()
	// Store returns the store of one actor, which the database takes for a process of
	// its own. The statements of store -1 do not stop.
	Store(actor int) admin.Database
	// PerCall reports whether a whole call is atomic to other actors, who then see it
	// as one statement. Clients then stop before calls, and statements do not stop.
	PerCall() bool
	// Blocked lists the actors that hold a lock for which the given actor waits.
	Blocked(ctx context.Context, actor int) ([]int, error)
	// Pass moves the database's clock.
	Pass(ctx context.Context, d time.Duration) error
	// Settles reports whether a process settles after its calls: whether it looks then at the jobs that come after
	// those that have ended. Others do it within the calls.
	Settles() bool
	// Settle settles once. While statements stop, nothing else does but a sweep.
	Settle(ctx context.Context, actor int) error
	// Look reads the committed rows.
	Look(ctx context.Context) (State, error)
}

// State is the committed database: live jobs, final jobs, and the settings that decide
// which jobs may run.
type State struct {
	Now         time.Time // the database's clock
	Jobs        map[int64]Job
	Final       map[int64]dibs.State
	Causes      map[int64]int64  // the jobs because of which final ones were cancelled
	Edges       map[int64][]Edge // what jobs come after
	Paused      bool
	Concurrency int
	GroupLimit  int
	Strict      bool
	Forgets     bool           // completed jobs are deleted at once
	Groups      map[string]int // groups that have their own limit
}

// NewState is an empty database.
func NewState(now time.Time) State {
	return State{
		Now: now, Jobs: map[int64]Job{}, Final: map[int64]dibs.State{}, Causes: map[int64]int64{}, Edges: map[int64][]Edge{}, Groups: map[string]int{},
	}
}

// Job holds the columns of a live job that decide whether it may run.
type Job struct {
	ID         int64
	Token      dibs.Token // zero: unclaimed
	LeaseUntil time.Time
	RunAt      time.Time
	Attempt    int
	Priority   int
	Group      string
	Cancel     bool // an operator has asked for its cancellation
	Key        string
	HoldsKey   bool
	Waits      bool // for jobs that it comes after
}

// Edge says that a job comes after another.
type Edge struct {
	Parent int64
	Need   dibs.Need
}

// claimed reports whether an attempt holds the job.
func (j Job) claimed() bool { return !j.Token.IsZero() }

// before reports whether claims take j ahead of k.
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

// running counts a group's running jobs, or with "" those of all groups.
func (s State) running(group string) (n int) {
	for _, j := range s.Jobs {
		if j.claimed() && (group == "" || j.Group == group) {
			n++
		}
	}
	return n
}
