package wire

import (
	"encoding/json"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/nesting"
)

// Schedule is dibs.Schedule with durations in seconds.
type Schedule struct {
	dibs.Schedule
	Jitter Seconds `json:"jitter"`
}

// ScheduleOf makes a Schedule. A payload or metadata that is no JSON, or nested too deep, becomes a string. An empty
// payload, as in a list, is left out.
func ScheduleOf(s dibs.Schedule) Schedule {
	if raw, ok := s.Payload.(json.RawMessage); ok && len(raw) == 0 {
		s.Payload = nil
	} else if ok && !legible(raw) {
		s.Payload = string(raw)
	}
	if len(s.Metadata) > 0 && !legible(s.Metadata) {
		s.Metadata = Encode(string(s.Metadata))
	}
	return Schedule{Schedule: s, Jitter: Seconds(s.Jitter)}
}

// legible reports whether JSON can be read, also inside another object.
func legible(raw []byte) bool { return !nesting.Over(raw, dibs.MaxDepth) && json.Valid(raw) }
