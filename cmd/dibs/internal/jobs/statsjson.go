package jobs

import (
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/wire"
)

// HeldStatsJSON are statistics with the reasons why due jobs do not start.
type HeldStatsJSON struct {
	wire.Stats
	Why []holdups.Hold `json:"why,omitempty"`
}

// tableStatsJSON holds the statistics that an adopted table knows.
type tableStatsJSON struct {
	Queue     string `json:"queue"`
	Waiting   int64  `json:"waiting"`
	Scheduled *int64 `json:"scheduled,omitempty"`
	Running   int64  `json:"running"`
	Dead      *int64 `json:"dead,omitempty"`

	OldestAge  *wire.Seconds `json:"oldest_age,omitempty"`
	Window     *wire.Seconds `json:"window,omitempty"` // time that the figures below cover
	Succeeded  *int64        `json:"succeeded,omitempty"`
	AvgWait    *wire.Seconds `json:"avg_wait,omitempty"`
	AvgRun     *wire.Seconds `json:"avg_run,omitempty"`
	Throughput *float64      `json:"throughput,omitempty"`
}

func (a *app) statsJSON(s admin.QueueStats, w *holdups.Look) any {
	if a.Adopted == nil {
		return HeldStatsJSON{wire.StatsOf(s), w.Of(s)}
	}
	out := tableStatsJSON{Queue: s.Queue, Waiting: s.Waiting, Running: s.Running}
	if a.Adopted.Knows("LATER") {
		out.Scheduled = &s.Scheduled
	}
	if a.Adopted.Knows("DEAD") {
		out.Dead = &s.Dead
	}
	if a.Adopted.Knows("OLDEST") {
		out.OldestAge = new(wire.Seconds(s.OldestAge))
	}
	if s.Window == 0 {
		return out
	}
	out.Window, out.Succeeded, out.Throughput = new(wire.Seconds(s.Window)), &s.Succeeded, &s.Throughput
	if a.Adopted.Knows("WAIT") {
		out.AvgWait = new(wire.Seconds(s.AvgWait))
	}
	if a.Adopted.Knows("RUN") {
		out.AvgRun = new(wire.Seconds(s.AvgRun))
	}
	return out
}
