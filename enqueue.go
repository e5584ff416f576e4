package dibs

import (
	"encoding/json"
	"time"
)

// Limits. Longer input is refused with an [InvalidError];
// only error texts are cut. Names and keys are UTF-8 without control characters, and without
// those that turn the direction of text or separate lines; names of queues have no :// either, as
// a URL may hold a password.
const (
	MaxName         = 255      // bytes of a queue, kind, group or worker name
	MaxUniqueKey    = 512      // bytes of a unique key
	MaxMetadata     = 16 << 10 // bytes of metadata
	MaxPayload      = 1 << 20  // bytes of payload by default; a queue's PayloadLimit overrides it
	MaxPayloadLimit = 64 << 20 // the largest PayloadLimit
	MaxResult       = 1 << 20  // bytes of a result
	MaxDepth        = 1000     // objects and arrays inside each other, in a payload, metadata or a result
	MaxErrorText    = 4 << 10  // bytes of one error in the history; longer ones are cut
	MaxProgressText = 256      // bytes of the text of a job's progress; longer ones are cut
	MaxSteps        = 1000     // steps of a job
	MaxStepsTotal   = 16 << 20 // bytes of the values of a job's steps, in all
	MaxErrors       = 10       // entries of the error history; older ones go
	MaxBatch        = 10_000   // jobs, outcomes or leases of one call
	MaxAfter        = 100_000  // jobs that those of one call come after, in all
	MaxPriority     = 32767
	DefaultPriority = 255
	DefaultQueue    = "default"
	MaxDelay        = 10 * 365 * 24 * time.Hour // the longest delay of a start, a retry or a snooze
	MinLease        = 100 * time.Millisecond
	MaxLease        = 24 * time.Hour
)

// UniqueUntil says for how long a job holds its unique key. A key belongs to its
// queue and has at most one holder; enqueueing another job with a held key inserts
// nothing and returns the holder's id.
type UniqueUntil string

const (
	// UntilFinished: the job holds its key until it is completed, dead or
	// cancelled, through retries too. The default.
	UntilFinished UniqueUntil = "finished"
	// UntilClaimed: the job holds its key only while it has not been claimed for
	// the first time ("while waiting"), so that a change that comes while it runs
	// is enqueued again. It does not take the key back for a retry.
	UntilClaimed UniqueUntil = "claimed"
)

// IfHeld says what enqueueing a job does if another job holds its unique key.
type IfHeld string

const (
	// HeldKeep leaves the holder as it is. The default.
	HeldKeep IfHeld = "keep"
	// HeldReplace makes a holder that waits the new job, and gives it all its attempts again.
	// The holder keeps its id, its unique key with all that says how long it is held, CreatedAt
	// and the attempts and errors so far. Without Delay and RunAt it also keeps its RunAt, or may
	// start now if that has not come.
	HeldReplace IfHeld = "replace"
	// HeldPush moves the RunAt of a holder that waits on to the new job's, never back, and
	// changes nothing else ("debounce"). It needs Delay or RunAt, and a DelayLimit.
	HeldPush IfHeld = "push"
)

// NewJob is a job to enqueue. Kind is required; the zero value of every other field is its default.
type NewJob struct {
	Queue string // default DefaultQueue
	Kind  string // selects the handler

	// Payload is encoded by encoding/json. A json.RawMessage or []byte must be valid
	// JSON in UTF-8 and is kept byte for byte. nil is the JSON null. It may have at most
	// MaxDepth objects and arrays inside each other, as Metadata may.
	Payload  any
	Metadata json.RawMessage // a JSON object, for tags or trace context; names that begin with "dibs." are refused

	Priority *int          // 0-32767, small first; nil: DefaultPriority
	Delay    time.Duration // start at the earliest this long from now, on the database's clock
	RunAt    time.Time     // start at the earliest at this time, instead of Delay; a past time means now

	MaxAttempts int // 0: the queue's

	Group       string      // jobs of one group run at most GroupLimit at once, in order
	UniqueKey   string      // at most one job of the queue holds this key
	UniqueUntil UniqueUntil // default UntilFinished

	// UniqueFor and UniqueWindow have the job hold its key for longer: at least until a period
	// has passed, whether the job has ended, or been deleted, or not. It keeps out jobs that
	// have a period too. UniqueFor counts from enqueueing on, 1 ms to MaxDelay. UniqueWindow is
	// the calendar's "hour", "day", "week" (from Monday) or "month", in UTC or in a time zone by
	// its IANA name: "day in Europe/Berlin". Both go by the database's clock.
	UniqueFor    time.Duration
	UniqueWindow string

	IfHeld IfHeld // what to do with another job that holds the key; default HeldKeep
	// DelayLimit is how long after its CreatedAt a job that holds the key starts at the latest,
	// however often it is replaced or pushed. HeldPush needs one: else a job could be delayed for
	// ever. With HeldReplace it may be 0, no limit. HeldKeep refuses one, and so does a job
	// without Delay and RunAt. At most MaxDelay.
	DelayLimit time.Duration

	// Ref names the job within its call, for others that come after it; many may share one.
	Ref string
	// After names the jobs that must have ended before the job may start: those with a Ref earlier in the
	// same call, or jobs that exist. Until then it is blocked. It has no meaning if another job holds
	// the unique key.
	After []Dep
}

// Enqueued says what became of one NewJob.
type Enqueued struct {
	ID int64 `json:"id"`
	// Existing is true when another job held the unique key: nothing was inserted,
	// and ID is that job's.
	Existing bool `json:"existing,omitempty"`
	// Replaced and Pushed are true when that job waits, and IfHeld has been done to it: it has
	// not been claimed before the new job's transaction commits. If neither is true, it was
	// kept: it runs, has ended, or was not to be changed.
	Replaced bool `json:"replaced,omitempty"`
	Pushed   bool `json:"pushed,omitempty"`
}
