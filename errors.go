package dibs

import (
	"errors"
	"fmt"
)

// What calls fail with; match with errors.Is.
var (
	// ErrLeaseLost: a token was no longer good; see LeaseLostError.
	ErrLeaseLost = errors.New("lease lost")
	// ErrInvalid: the input breaks a rule; see InvalidError. Nothing was done.
	ErrInvalid = errors.New("invalid input")
	// ErrNotFound: there is no job with that id (or it was pruned).
	ErrNotFound = errors.New("no such job")
	// ErrUnknownQueue: nobody has enqueued into that queue or set it.
	ErrUnknownQueue = errors.New("unknown queue")
	// ErrSchema: the database has no dibs schema, or an older or newer one.
	ErrSchema = errors.New("schema missing or of another version")
	// ErrDenied: the user of the database lacks a right.
	ErrDenied = errors.New("permission denied")
	// ErrUnavailable: the database cannot be reached just now, or refused for a
	// reason that may pass. Whether the call took effect is not known.
	ErrUnavailable = errors.New("database unavailable")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("the store is closed")
	// ErrFinished: returned by a handler that has itself finished the job, in its
	// own transaction (Tx.Finish): the worker then writes nothing.
	ErrFinished = errors.New("job finished by its handler")
	// ErrNotStarted: returned by a handler, wrapped with the reason, that could not begin its
	// job as something is wanting that has nothing to do with the job. The job is given back
	// unrun, which does not count, and the worker pauses its claims: for 0.1 s, and for twice
	// as long each time that it happens again, up to 30 s.
	ErrNotStarted = errors.New("job not started")
)

// LeaseLostError lists the jobs for which a write was refused, because the lease
// had ended, or another claim had taken the job. Those were not changed; the
// others of the batch were. Inside the caller's transaction it means: roll back.
type LeaseLostError struct {
	IDs []int64
}

func (e *LeaseLostError) Error() string {
	if len(e.IDs) == 1 {
		return fmt.Sprintf("lease lost on job %d: its lease had ended or it was finished; nothing was written for it", e.IDs[0])
	}
	return fmt.Sprintf("lease lost on %d jobs (first: %v): their leases had ended or they were finished; nothing was written for them", len(e.IDs), first(e.IDs))
}

// Is makes errors.Is(err, ErrLeaseLost) true.
func (e *LeaseLostError) Is(target error) bool { return target == ErrLeaseLost }

// UnwrittenError lists the outcomes of a Finish that were certainly not written, since
// somebody holds the rows of their jobs: write them again. Lost are those that were
// refused, as in a LeaseLostError. All others of the call have been written.
type UnwrittenError struct {
	IDs  []int64
	Lost []int64
	Err  error // what the database said
}

func (e *UnwrittenError) Error() string {
	return fmt.Sprintf("%d outcomes (first: of job %v) could not be written, the others were: %v", len(e.IDs), first(e.IDs), e.Err)
}

// first names the first of a list that others may have made, and left empty.
func first(ids []int64) any {
	if len(ids) == 0 {
		return "none"
	}
	return ids[0]
}

// Is makes errors.Is(err, ErrUnavailable) true.
func (e *UnwrittenError) Is(target error) bool { return target == ErrUnavailable }

// InvalidError names the field that was wrong and the rule it breaks.
type InvalidError struct {
	Field  string // such as "jobs[3].priority"
	Reason string // such as "must be 0 to 32767, got 40000"
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }
