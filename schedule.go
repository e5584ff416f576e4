package dibs

import (
	"context"
	"encoding/json"
	"time"
)

// Missed says what becomes of a schedule's ticks that passed while no process looked after
// it. A tick that is at most 10 s late is not missed.
type Missed string

const (
	MissedOnce Missed = "once" // one job for all missed ticks, for the latest. The default
	MissedSkip Missed = "skip" // no job
	MissedAll  Missed = "all"  // a job for each of the latest MissedLimit missed ticks
)

// Limits of a schedule.
const (
	MinEvery           = time.Second // the shortest interval
	MaxSpec            = 256         // bytes of a spec
	MaxMissed          = 1000        // the largest MissedLimit
	DefaultMissedLimit = 100
	MaxSchedules       = 10_000 // how many there are at most
	MaxNextTicks       = 1000   // how many ticks NextTicks lists at most
)

// Schedule enqueues a job at each of its ticks. Name, Spec and Kind are required; the zero
// value of every other field is its default.
//
// Each tick makes exactly one job, whatever number of processes look after the schedule and
// whenever they crash: the job and the schedule's next tick are written in one transaction,
// by the database's clock. Every worker looks after all schedules of its database.
type Schedule struct {
	Name string `json:"name"`

	// Spec is when the ticks come: five fields of cron (minute, hour, day of month, month, day
	// of week), six with the second first, a word such as "@daily", or an interval such as
	// "every 90s". docs/howto/schedules.md explains it.
	Spec string `json:"spec"`
	// Zone is the time zone of Spec's clock, an IANA name such as Europe/Berlin. Default UTC.
	// At a time of day that a change of clocks leaves out, the tick comes at the change; at
	// one that comes twice, only the first time. Specs that match each hour go on by the hour.
	Zone string `json:"zone"`

	// The jobs, as in NewJob. The store adds the members "dibs.schedule" and "dibs.tick" to
	// their metadata: RawJob has them as Schedule and Tick.
	Queue       string          `json:"queue"`
	Kind        string          `json:"kind"`
	Payload     any             `json:"payload,omitempty"` // a json.RawMessage when read, empty in a list of all
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Priority    *int            `json:"priority,omitempty"`
	MaxAttempts int             `json:"max_attempts,omitempty"`
	Group       string          `json:"group,omitempty"`

	Jitter time.Duration `json:"jitter,omitempty"` // each job starts up to so much later, at random
	// Missed is what becomes of ticks that passed while nobody looked after the schedule.
	Missed      Missed `json:"missed"`
	MissedLimit int    `json:"missed_limit,omitempty"` // for MissedAll: how many jobs at most, 1 to MaxMissed; default DefaultMissedLimit
	// SkipOverlap makes no job at a tick while the job of the tick before has not ended.
	SkipOverlap bool      `json:"skip_overlap,omitempty"`
	Start       time.Time `json:"start,omitzero"` // no tick before; intervals are counted from here; in the years 1970 to 2200
	End         time.Time `json:"end,omitzero"`   // no tick after
	Paused      bool      `json:"paused"`         // no ticks; those that pass meanwhile are not missed

	// What follows is the store's: it is ignored in calls.
	Owner    string    `json:"owner,omitempty"`    // whose list it is in: see SetSchedules
	Next     time.Time `json:"next,omitzero"`      // zero: none, as it is paused or has ended
	LastTick time.Time `json:"last_tick,omitzero"` // the last one that made a job
	LastJob  int64     `json:"last_job,omitempty"` // that job
	Since    time.Time `json:"since,omitzero"`     // when Spec was set: intervals are counted from here, unless there is a Start
}

// Schedules is what operators and programs do with schedules.
type Schedules interface {
	// Schedules lists schedules by name: all, without their payloads and metadata; or, if names are given, those of
	// them that exist, whole. To change one use ChangeSchedule: SetSchedule refuses one of a list of all, which would
	// lose its payload.
	Schedules(ctx context.Context, names ...string) ([]Schedule, error)
	// SetSchedule makes a schedule or replaces the one of that name, and returns it. If the
	// spec, zone and start are as before, the next tick is too; else ticks come from now on, and
	// one that has come without a job yet is dropped. If queues are given, it replaces only a
	// schedule of one of them: ErrUnknownSchedule says that the name is another schedule's.
	SetSchedule(ctx context.Context, s Schedule, queues ...string) (Schedule, error)
	// ChangeSchedule has f change a schedule, and stores and returns the result. If the schedule
	// changes meanwhile, f is called again with what it is then. An error of f is returned as it
	// is, and nothing is changed. A schedule that is no longer paused goes on with its next tick
	// from now.
	ChangeSchedule(ctx context.Context, name string, f func(*Schedule) error) (Schedule, error)
	// SetSchedules makes an owner's schedules those of the list: new ones are made, different
	// ones replaced, and those that are no longer listed deleted. Programs call it when they
	// start. Those that stay keep their next tick, and stay paused if somebody has paused
	// them. A name that is another owner's, or nobody's, is refused. While two versions of a
	// program are running, the one that called last has its list.
	SetSchedules(ctx context.Context, owner string, list []Schedule) error
	// DeleteSchedule deletes a schedule. Its jobs stay. If queues are given, schedules of all
	// others are unknown to this call.
	DeleteSchedule(ctx context.Context, name string, queues ...string) error
	// RunSchedule enqueues a schedule's job now, besides its ticks, even if it is paused. The
	// schedule does not change: LastJob and SkipOverlap go by the jobs of ticks. If queues are
	// given, schedules of all others are unknown to this call.
	RunSchedule(ctx context.Context, name string, queues ...string) (Enqueued, error)
	// NextTicks lists the next n ticks of a schedule, 1 to MaxNextTicks, by the database's
	// clock. It need not be stored.
	NextTicks(ctx context.Context, s Schedule, n int) ([]time.Time, error)
}
