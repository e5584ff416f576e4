package dibs

import (
	"log/slog"
	"time"
)

// longLeases is how many times its lease a handler runs before that is logged; then ten
// times as many, and so on.
const longLeases = 10

// noteLong logs that a handler has run for long, unless something limits its time: one
// that hangs, as its own connection does, keeps its job for ever, since the worker goes on
// extending the lease.
func (r *run) noteLong(h *held, now time.Time) {
	ran := now.Sub(h.start)
	if r.JobTimeout > 0 || !r.running[h] || ran < time.Duration(max(h.long, longLeases))*h.length {
		return
	}
	for h.long = max(h.long, longLeases); ran >= time.Duration(h.long)*h.length; {
		h.long *= 10
	}
	r.log(slog.LevelWarn, "handler runs for long; if it may hang, set a job timeout", append(named(h.job),
		slog.String("kind", h.job.Kind), slog.Int("attempt", h.job.Attempt), slog.Duration("ran", ran), slog.Duration("lease", h.length))...)
}
