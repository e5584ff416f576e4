package wire

import (
	"encoding/json"

	"github.com/dibs-queue/dibs"
)

// Schedule is dibs.Schedule with durations in seconds.
type Schedule struct {
	dibs.Schedule
	Jitter Seconds `json:"jitter"`
}

// ScheduleOf makes a Schedule. A payload or metadata that is no JSON becomes a string.
func ScheduleOf(s dibs.Schedule) Schedule {
	if raw, ok := s.Payload.(json.RawMessage); ok && !json.Valid(raw) {
		s.Payload = string(raw)
	}
	if len(s.Metadata) > 0 && !json.Valid(s.Metadata) {
		s.Metadata = Encode(string(s.Metadata))
	}
	return Schedule{Schedule: s, Jitter: Seconds(s.Jitter)}
}
