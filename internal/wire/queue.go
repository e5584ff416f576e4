// Package wire is how jobs, queues and what else dibs reads and writes looks in JSON: with durations
// as numbers of seconds.
package wire

import (
	"reflect"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
)

// Queue is dibs.Queue with durations in seconds.
type Queue struct {
	Name string `json:"name"`
	Settings
}

// Settings are what can be changed of a queue.
type Settings struct {
	Paused        bool       `json:"paused"`
	Concurrency   int        `json:"concurrency"`
	Rate          Rate       `json:"rate,omitzero"`
	GroupLimit    int        `json:"group_limit"`
	GroupRate     Rate       `json:"group_rate,omitzero"`
	Strict        bool       `json:"strict"`
	Order         dibs.Order `json:"order"`
	Lease         Seconds    `json:"lease"`
	JobTimeout    Seconds    `json:"job_timeout"`
	MaxAttempts   int        `json:"max_attempts"`
	Backoff       Backoff    `json:"backoff"`
	KeepCompleted Seconds    `json:"keep_completed"`
	KeepDead      Seconds    `json:"keep_dead"`
	KeepCancelled Seconds    `json:"keep_cancelled"`
	PayloadLimit  int        `json:"payload_limit"`
}

// Backoff is dibs.Backoff with durations in seconds.
type Backoff struct {
	Base   Seconds `json:"base"`
	Factor float64 `json:"factor"`
	Max    Seconds `json:"max"`
	Jitter float64 `json:"jitter"`
}

// QueueOf makes a Queue.
func QueueOf(q dibs.Queue) Queue { return as[Queue](q) }

// Queue is the library's form.
func (q Queue) Queue() dibs.Queue { return as[dibs.Queue](q) }

// as makes a struct from one with the same fields, of which the one has durations and the other Seconds.
func as[To any](from any) (to To) {
	copyFields(reflect.ValueOf(from), reflect.ValueOf(&to).Elem())
	return to
}

func copyFields(from, to reflect.Value) {
	for i := range to.NumField() {
		field := to.Type().Field(i)
		if field.Anonymous {
			copyFields(from, to.Field(i))
			continue
		}
		switch value := from.FieldByName(field.Name); {
		case !value.IsValid():
			panic(from.Type().String() + " has no field " + field.Name + ", which " + to.Type().String() + " has")
		case value.CanConvert(field.Type):
			to.Field(i).Set(value.Convert(field.Type))
		default: // a struct with durations
			copyFields(value, to.Field(i))
		}
	}
}

// Stats is admin.QueueStats with durations in seconds.
type Stats struct {
	Queue         string    `json:"queue"`
	Paused        bool      `json:"paused"`
	HeldUntil     time.Time `json:"held_until,omitzero"`
	HeldGroups    int64     `json:"held_groups,omitempty"`
	Waiting       int64     `json:"waiting"`
	Scheduled     int64     `json:"scheduled"`
	Blocked       int64     `json:"blocked"`
	Running       int64     `json:"running"`
	Completed     int64     `json:"completed"`
	Dead          int64     `json:"dead"`
	Cancelled     int64     `json:"cancelled"`
	ScheduledMore bool      `json:"scheduled_more,omitempty"`
	Miscounted    bool      `json:"miscounted,omitempty"`
	OldestAge     Seconds   `json:"oldest_age"`
	Window        Seconds   `json:"window"`
	Enqueued      int64     `json:"enqueued"`
	Claimed       int64     `json:"claimed"`
	Succeeded     int64     `json:"succeeded"`
	Failed        int64     `json:"failed"`
	AvgWait       Seconds   `json:"avg_wait"`
	AvgRun        Seconds   `json:"avg_run"`
	Throughput    float64   `json:"throughput"`
}

// StatsOf makes Stats.
func StatsOf(s admin.QueueStats) Stats { return as[Stats](s) }

// Rate is dibs.Rate with durations in seconds.
type Rate struct {
	N     int     `json:"n"`
	Per   Seconds `json:"per"`
	Burst int     `json:"burst"`
}

// OrNone takes the rate away if a change has made its n 0: then no other part stays but those that the change gives,
// and they are refused.
func (r *Rate) OrNone(given Rate) {
	if r.N == 0 {
		*r = given
	}
}

// RateOf makes a Rate.
func RateOf(r dibs.Rate) Rate { return as[Rate](r) }

// Rate is the library's form.
func (r Rate) Rate() dibs.Rate { return as[dibs.Rate](r) }

// Group is dibs.Group with durations in seconds.
type Group struct {
	Name      string    `json:"name"`
	Limit     int       `json:"limit,omitempty"`
	Rate      Rate      `json:"rate,omitzero"`
	HeldUntil time.Time `json:"held_until,omitzero"`
}

// GroupsOf makes a list of Group.
func GroupsOf(groups []dibs.Group) []Group {
	all := make([]Group, len(groups))
	for i, g := range groups {
		all[i] = as[Group](g)
	}
	return all
}
