package dibs

import (
	"encoding/json"
	"time"
)

// Ending says how an attempt ended.
type Ending string

const (
	EndCompleted Ending = "completed" // the job is done
	EndRetry     Ending = "retry"     // it failed: run it again after Delay, or dead if no attempts are left
	EndSnooze    Ending = "snooze"    // run it again after Delay; not a failure, not counted
	EndRelease   Ending = "release"   // given back unrun: at once, in its old place; not counted
	EndDead      Ending = "dead"      // it failed for good
	EndCancelled Ending = "cancelled" // it was told to stop
)

// Outcome is how one attempt ended; Finish writes it.
type Outcome struct {
	ID     int64           `json:"id"`
	Token  Token           `json:"token"`
	Ending Ending          `json:"ending"`
	Result json.RawMessage `json:"result,omitempty"` // only with completed: valid JSON, at most MaxResult bytes and MaxDepth deep
	Error  string          `json:"error,omitempty"`  // entry of the error history for retry, dead and cancelled, cut to MaxErrorText
	// Delay is required for snooze. For retry, nil means the queue's backoff.
	Delay *time.Duration `json:"delay,omitempty"`
	// Add are jobs to enqueue with it, only with completed: they exist if and only if this outcome is written. What
	// comes after the completed job comes after them too.
	Add []NewJob `json:"-"`
}

// LeavesError reports whether the outcome adds an entry to the job's error history.
func (o Outcome) LeavesError() bool {
	return o.Ending == EndRetry || o.Ending == EndDead || o.Ending == EndCancelled && o.Error != ""
}

// Complete is the outcome of a job that is done. result may be nil.
func (l Lease) Complete(result json.RawMessage) Outcome {
	return Outcome{ID: l.ID, Token: l.Token, Ending: EndCompleted, Result: result}
}

// Retry is the outcome of a failed attempt: run again after the queue's backoff.
func (l Lease) Retry(err string) Outcome {
	return Outcome{ID: l.ID, Token: l.Token, Ending: EndRetry, Error: err}
}

// RetryAfter is the outcome of a failed attempt that names its own delay.
func (l Lease) RetryAfter(d time.Duration, err string) Outcome {
	return Outcome{ID: l.ID, Token: l.Token, Ending: EndRetry, Error: err, Delay: &d}
}

// Snooze puts the job off for d without counting the attempt.
func (l Lease) Snooze(d time.Duration) Outcome {
	return Outcome{ID: l.ID, Token: l.Token, Ending: EndSnooze, Delay: &d}
}

// Release gives the job back unrun, in its old place, without counting the attempt.
func (l Lease) Release() Outcome { return Outcome{ID: l.ID, Token: l.Token, Ending: EndRelease} }

// Die ends the job as dead, whatever attempts are left.
func (l Lease) Die(err string) Outcome {
	return Outcome{ID: l.ID, Token: l.Token, Ending: EndDead, Error: err}
}

// Cancel ends the job as cancelled.
func (l Lease) Cancel(err string) Outcome {
	return Outcome{ID: l.ID, Token: l.Token, Ending: EndCancelled, Error: err}
}
