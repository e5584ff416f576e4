package dibs

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// State says where a job is in its life. docs/states.md draws the transitions.
type State string

const (
	// Waiting jobs can be claimed once RunAt has come.
	Waiting State = "waiting"
	// Blocked jobs wait for others: for the jobs that they come after, or for their turns in their groups, as
	// others have all the places of the group, or no claim has looked at it since they came.
	Blocked State = "blocked"
	// Running jobs are held by a worker under a lease.
	Running State = "running"

	// Completed, Dead and Cancelled are final. Only a Requeue (package admin) leaves them.
	Completed State = "completed"
	Dead      State = "dead"
	Cancelled State = "cancelled"
)

// Final reports whether a job in this state has ended.
func (s State) Final() bool { return s == Completed || s == Dead || s == Cancelled }

// Token proves a claim, together with the job's id. All jobs of one claim share one
// random token; claims of one process at the same time may share it too.
type Token [16]byte

// String is the token in 32 hexadecimal digits.
func (t Token) String() string { return hex.EncodeToString(t[:]) }

// IsZero reports whether t is no token at all.
func (t Token) IsZero() bool { return t == Token{} }

// MarshalText writes the form of String, and nothing for the zero token.
func (t Token) MarshalText() ([]byte, error) {
	if t.IsZero() {
		return nil, nil
	}
	return []byte(t.String()), nil
}

// UnmarshalText reads the form of String.
func (t *Token) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*t = Token{}
		return nil
	}
	if len(text) == 2*len(t) {
		if _, err := hex.Decode(t[:], text); err == nil {
			return nil
		}
	}
	return fmt.Errorf("a token must be 32 hexadecimal digits, got %.40q", text)
}

// AttemptError is one entry of a job's error history.
type AttemptError struct {
	Attempt   int       `json:"attempt"`
	RunAt     time.Time `json:"run_at,omitzero"`     // its planned start; zero on an adopted table
	ClaimedAt time.Time `json:"claimed_at,omitzero"` // zero on an adopted table
	At        time.Time `json:"at"`                  // when it ended
	Worker    string    `json:"worker,omitempty"`
	Error     string    `json:"error"`
}

// RawJob is one unit of work as a store keeps it.
//
// Times that have not come yet are zero.
type RawJob struct {
	ID       int64           `json:"id"`            // grows in the order of enqueueing
	Key      string          `json:"key,omitempty"` // an adopted row's id, if it is not a whole number from 1 on
	Queue    string          `json:"queue"`
	Kind     string          `json:"kind"`
	State    State           `json:"state"`
	Payload  json.RawMessage `json:"payload"`            // byte for byte what was enqueued
	Metadata json.RawMessage `json:"metadata,omitempty"` // a JSON object, or nil
	Priority int             `json:"priority"`           // 0-32767, small first
	RunAt    time.Time       `json:"run_at,omitzero"`    // earliest start of the next attempt

	Attempt     int `json:"attempt"`           // claims so far; only grows
	Excused     int `json:"excused,omitempty"` // attempts that do not count: released or snoozed
	MaxAttempts int `json:"max_attempts"`      // the job is dead once Attempt-Excused reaches it without success; 0: no limit, as some adopted tables have none

	Group      string `json:"group,omitempty"`
	GroupLimit int    `json:"group_limit,omitempty"` // how many of the group may run at once; 0 without a group
	Limited    bool   `json:"-"`                     // set by Claim: the queue has a concurrency limit
	// Timeout is set by Claim: the queue's JobTimeout at that time.
	Timeout time.Duration `json:"-"`
	// HeldUntil is when the rate of its queue or group lets it start at the earliest, if it
	// waits for that. Get and List set it.
	HeldUntil time.Time `json:"held_until,omitzero"`

	// UniqueKey is the key that a live job holds; Get and List leave out one that it holds no longer.
	UniqueKey   string      `json:"unique_key,omitempty"`
	UniqueUntil UniqueUntil `json:"unique_until,omitempty"`
	// UniqueFreeAt is when the period ends for which it holds its key, whatever becomes of it:
	// UniqueFor, UniqueWindow. Get and List set it.
	UniqueFreeAt time.Time `json:"unique_free_at,omitzero"`

	Worker          string    `json:"worker,omitempty"` // the last one that claimed it
	Token           Token     `json:"token,omitzero"`   // only while running
	LeaseUntil      time.Time `json:"lease_until,omitzero"`
	CancelRequested bool      `json:"cancel_requested,omitempty"`

	CreatedAt  time.Time `json:"created_at,omitzero"`
	ClaimedAt  time.Time `json:"claimed_at,omitzero"` // start of the last attempt
	FinishedAt time.Time `json:"finished_at,omitzero"`

	Errors []AttemptError  `json:"errors,omitempty"` // the last 10, oldest first, each cut to 4 KiB
	Result json.RawMessage `json:"result,omitempty"` // what the completed attempt left, or nil

	// Progress is what the running attempt has last told of itself; nil: nothing yet.
	Progress *Progress `json:"progress,omitempty"`

	// Fault says what of its row is not as dibs writes it, which only SQL by hand can bring about:
	// the column and what is wrong there. Payload, Metadata and Result are then JSON strings where
	// the column holds no JSON. Get and List set it; Claim too, but it does not read the payload. A
	// worker ends such a job as dead, without calling a handler.
	Fault string `json:"fault,omitempty"`

	// WaitsFor is how many of the jobs that it comes after have not ended yet. Get counts up to 100,000, List up to
	// 1,000.
	WaitsFor int `json:"waits_for,omitempty"`
	// Flow is the least id of the call that has enqueued it, if a job of that call comes after another.
	Flow int64 `json:"flow,omitempty"`
	// Cause is the job because of which it was cancelled: its own end made it impossible that this one starts.
	Cause int64 `json:"cause,omitempty"`

	Schedule string    `json:"schedule,omitempty"` // the schedule that enqueued it
	Tick     time.Time `json:"tick,omitzero"`      // the planned time that it is for

	handling *handling // in a handler: what its calls leave for the worker
}

// Job is a job whose payload is decoded into the handler's own type.
type Job[T any] struct {
	RawJob
	Payload T `json:"payload"`
}

// Lease names the claim on one job, as Extend and Finish need it.
func (j *RawJob) Lease() Lease { return Lease{ID: j.ID, Token: j.Token} }

// LastAttempt reports whether a failure of this attempt makes the job dead.
func (j *RawJob) LastAttempt() bool {
	return j.MaxAttempts > 0 && j.Attempt-j.Excused >= j.MaxAttempts
}

// After is the state that an outcome of the running attempt leads to. Waiting means that
// the job is given back; its group may block it then. The end of a lease is a retry without delay.
func (j *RawJob) After(o Outcome) State {
	switch {
	case o.Ending == EndCompleted:
		return Completed
	case o.Ending == EndDead:
		return Dead
	case o.Ending == EndCancelled, j.CancelRequested:
		return Cancelled
	case o.Ending == EndRetry && j.LastAttempt():
		return Dead
	}
	return Waiting
}
