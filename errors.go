package dibs

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that calls return, and why the contexts of handlers end; match them with errors.Is.
var (
	// ErrLeaseLost: a token was no longer good; see FinishError.
	ErrLeaseLost = errors.New("lease lost")
	// ErrInvalid: the input breaks a rule; see InvalidError. Nothing was done.
	ErrInvalid = errors.New("invalid input")
	// ErrNotFound: there is no job with that id (or it was pruned).
	ErrNotFound = errors.New("no such job")
	// ErrUnknownQueue: nobody has enqueued into that queue or set it.
	ErrUnknownQueue = errors.New("unknown queue")
	// ErrQueueInUse: DeleteQueue found what still needs the queue; the text says what, and what to do.
	ErrQueueInUse = errors.New("queue in use")
	// ErrUnknownSchedule: there is no schedule of that name.
	ErrUnknownSchedule = errors.New("unknown schedule")
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
	// job for a reason that has nothing to do with the job. The job is given back unrun, the
	// attempt is not counted, and the worker pauses its claims: for 0.1 s, and each time that
	// it happens again for twice as long, up to 30 s.
	ErrNotStarted = errors.New("job not started")

	// Why a handler's context ended: context.Cause(ctx) Is one of the following, or ErrLeaseLost.

	// ErrCancelled: somebody cancelled the job. A handler that then returns any
	// error leaves the job cancelled; one that returns nil has completed it. A handler may also
	// return ErrCancelled, wrapped with the reason, to cancel its job by itself.
	ErrCancelled = errors.New("job cancelled")
	// ErrJobTimeout: the handler ran longer than Worker.JobTimeout, KindOptions.Timeout or the
	// JobTimeout of its queue. If it then returns an error, the attempt has failed; if nil, the
	// job is completed.
	ErrJobTimeout = errors.New("job timeout")
	// ErrShutdown: the worker is shutting down and has waited ShutdownWait. A
	// handler that then returns an error has its job released, not failed.
	ErrShutdown = errors.New("worker shutting down")
)

// FinishError lists the jobs of a Finish whose outcomes were not written; all other outcomes
// were. It Is ErrLeaseLost if some are Lost, and ErrUnavailable if some are Unwritten.
type FinishError struct {
	// Lost are jobs whose lease had ended or that another claim had taken. In the caller's
	// transaction that means: roll back.
	Lost []int64
	// Unwritten are jobs whose rows another transaction held, so that nothing was written for them.
	// If Err says that the database gave no answer, it may have been. Finish them again: what was
	// written is then among the Lost.
	Unwritten []int64
	Err       error // the database's error for the Unwritten
}

func (e *FinishError) Error() string {
	var texts []string
	switch len(e.Lost) {
	case 0:
	case 1:
		texts = append(texts, fmt.Sprintf("lease lost on job %d: its lease had ended or it was finished; nothing was written for it", e.Lost[0]))
	default:
		texts = append(texts, fmt.Sprintf("lease lost on %d jobs (first: %d): their leases had ended or they were finished; nothing was written for them", len(e.Lost), e.Lost[0]))
	}
	if len(e.Unwritten) > 0 {
		texts = append(texts, fmt.Sprintf("the outcomes of %d jobs (first: %d) could not be written: %v", len(e.Unwritten), e.Unwritten[0], e.Err))
	}
	if len(texts) == 0 {
		return "no outcome was refused"
	}
	return strings.Join(texts, "; ")
}

// Is makes errors.Is work for ErrLeaseLost and ErrUnavailable.
func (e *FinishError) Is(target error) bool {
	return target == ErrLeaseLost && len(e.Lost) > 0 || target == ErrUnavailable && len(e.Unwritten) > 0
}

// InvalidError names the field that was wrong and the rule it breaks.
type InvalidError struct {
	Field  string // such as "jobs[3].priority"
	Reason string // such as "must be 0 to 32767, got 40000"
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }
