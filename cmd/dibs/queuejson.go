package main

import (
	"time"

	"github.com/dibs-queue/dibs"
)

// queueJSON is dibs.Queue with durations in seconds.
type queueJSON struct {
	Name          string      `json:"name"`
	Paused        bool        `json:"paused"`
	Concurrency   int         `json:"concurrency"`
	Rate          rateJSON    `json:"rate,omitzero"`
	GroupLimit    int         `json:"group_limit"`
	Strict        bool        `json:"strict"`
	Order         dibs.Order  `json:"order"`
	Lease         seconds     `json:"lease"`
	MaxAttempts   int         `json:"max_attempts"`
	Backoff       backoffJSON `json:"backoff"`
	KeepCompleted seconds     `json:"keep_completed"`
	KeepDead      seconds     `json:"keep_dead"`
	KeepCancelled seconds     `json:"keep_cancelled"`
	PayloadLimit  int         `json:"payload_limit"`
}

type backoffJSON struct {
	Base   seconds `json:"base"`
	Factor float64 `json:"factor"`
	Max    seconds `json:"max"`
	Jitter float64 `json:"jitter"`
}

func queueJSONOf(q dibs.Queue) queueJSON {
	return queueJSON{
		Name:          q.Name,
		Paused:        q.Paused,
		Concurrency:   q.Concurrency,
		Rate:          rateJSONOf(q.Rate),
		GroupLimit:    q.GroupLimit,
		Strict:        q.Strict,
		Order:         q.Order,
		Lease:         seconds(q.Lease),
		MaxAttempts:   q.MaxAttempts,
		Backoff:       backoffJSON{seconds(q.Backoff.Base), q.Backoff.Factor, seconds(q.Backoff.Max), q.Backoff.Jitter},
		KeepCompleted: seconds(q.KeepCompleted),
		KeepDead:      seconds(q.KeepDead),
		KeepCancelled: seconds(q.KeepCancelled),
		PayloadLimit:  q.PayloadLimit,
	}
}

// statsJSON is dibs.QueueStats with durations in seconds.
type statsJSON struct {
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
	OldestAge     seconds   `json:"oldest_age"`
	Window        seconds   `json:"window"`
	Enqueued      int64     `json:"enqueued"`
	Claimed       int64     `json:"claimed"`
	Succeeded     int64     `json:"succeeded"`
	Failed        int64     `json:"failed"`
	AvgWait       seconds   `json:"avg_wait"`
	AvgRun        seconds   `json:"avg_run"`
	Throughput    float64   `json:"throughput"`
}

// heldStatsJSON are statistics with the reasons why due jobs do not start.
type heldStatsJSON struct {
	statsJSON
	Why []hold `json:"why,omitempty"`
}

// tableStatsJSON holds the statistics that an adopted table knows.
type tableStatsJSON struct {
	Queue     string `json:"queue"`
	Waiting   int64  `json:"waiting"`
	Scheduled *int64 `json:"scheduled,omitempty"`
	Running   int64  `json:"running"`
	Dead      *int64 `json:"dead,omitempty"`

	OldestAge  *seconds `json:"oldest_age,omitempty"`
	Window     *seconds `json:"window,omitempty"` // time that the figures below cover
	Succeeded  *int64   `json:"succeeded,omitempty"`
	AvgWait    *seconds `json:"avg_wait,omitempty"`
	AvgRun     *seconds `json:"avg_run,omitempty"`
	Throughput *float64 `json:"throughput,omitempty"`
}

func (a *app) statsJSON(s dibs.QueueStats, w *why) any {
	if a.adopted == nil {
		return heldStatsJSON{statsJSONOf(s), w.of(s)}
	}
	out := tableStatsJSON{Queue: s.Queue, Waiting: s.Waiting, Running: s.Running}
	if a.adopted.knows("LATER") {
		out.Scheduled = &s.Scheduled
	}
	if a.adopted.knows("DEAD") {
		out.Dead = &s.Dead
	}
	if a.adopted.knows("OLDEST") {
		out.OldestAge = new(seconds(s.OldestAge))
	}
	if s.Window == 0 {
		return out
	}
	out.Window, out.Succeeded, out.Throughput = new(seconds(s.Window)), &s.Succeeded, &s.Throughput
	if a.adopted.knows("WAIT") {
		out.AvgWait = new(seconds(s.AvgWait))
	}
	if a.adopted.knows("RUN") {
		out.AvgRun = new(seconds(s.AvgRun))
	}
	return out
}

func statsJSONOf(s dibs.QueueStats) statsJSON {
	return statsJSON{
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
		OldestAge:     seconds(s.OldestAge),
		Window:        seconds(s.Window),
		Enqueued:      s.Enqueued,
		Claimed:       s.Claimed,
		Succeeded:     s.Succeeded,
		Failed:        s.Failed,
		AvgWait:       seconds(s.AvgWait),
		AvgRun:        seconds(s.AvgRun),
		Throughput:    s.Throughput,
	}
}
