// Package wire is how jobs, queues and what else dibs reads and writes looks in JSON: with durations
// as numbers of seconds.
package wire

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// Queue is dibs.Queue with durations in seconds.
type Queue struct {
	Name          string     `json:"name"`
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
func QueueOf(q dibs.Queue) Queue {
	return Queue{
		Name:          q.Name,
		Paused:        q.Paused,
		Concurrency:   q.Concurrency,
		Rate:          RateOf(q.Rate),
		GroupLimit:    q.GroupLimit,
		GroupRate:     RateOf(q.GroupRate),
		Strict:        q.Strict,
		Order:         q.Order,
		Lease:         Seconds(q.Lease),
		JobTimeout:    Seconds(q.JobTimeout),
		MaxAttempts:   q.MaxAttempts,
		Backoff:       Backoff{Seconds(q.Backoff.Base), q.Backoff.Factor, Seconds(q.Backoff.Max), q.Backoff.Jitter},
		KeepCompleted: Seconds(q.KeepCompleted),
		KeepDead:      Seconds(q.KeepDead),
		KeepCancelled: Seconds(q.KeepCancelled),
		PayloadLimit:  q.PayloadLimit,
	}
}

// Stats is dibs.QueueStats with durations in seconds.
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
func StatsOf(s dibs.QueueStats) Stats {
	return Stats{
		Queue:         s.Queue,
		Paused:        s.Paused,
		HeldUntil:     s.HeldUntil,
		HeldGroups:    s.HeldGroups,
		Waiting:       s.Waiting,
		Scheduled:     s.Scheduled,
		Blocked:       s.Blocked,
		Running:       s.Running,
		Completed:     s.Completed,
		Dead:          s.Dead,
		Cancelled:     s.Cancelled,
		ScheduledMore: s.ScheduledMore,
		Miscounted:    s.Miscounted,
		OldestAge:     Seconds(s.OldestAge),
		Window:        Seconds(s.Window),
		Enqueued:      s.Enqueued,
		Claimed:       s.Claimed,
		Succeeded:     s.Succeeded,
		Failed:        s.Failed,
		AvgWait:       Seconds(s.AvgWait),
		AvgRun:        Seconds(s.AvgRun),
		Throughput:    s.Throughput,
	}
}

// Rate is dibs.Rate with durations in seconds.
type Rate struct {
	N     int     `json:"n"`
	Per   Seconds `json:"per"`
	Burst int     `json:"burst"`
}

// RateOf makes a Rate.
func RateOf(r dibs.Rate) Rate { return Rate{r.N, Seconds(r.Per), r.Burst} }

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
		all[i] = Group{g.Name, g.Limit, RateOf(g.Rate), g.HeldUntil}
	}
	return all
}
