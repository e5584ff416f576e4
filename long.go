package dibs

import (
	"log/slog"
	"time"
)

// longLeases is how many times its lease a handler runs before noteLong logs it, which
// then logs again at ten times as many, and so on.
const longLeases = 10

// noteLong logs that a handler has run for long, unless a timeout limits its time: the
// worker extends the lease of a handler that hangs, so its job is never run again.
func (r *run) noteLong(h *held, now time.Time) {
	ran := now.Sub(h.start)
	if f := r.handler(h.job.Kind); f != nil && f.Timeout > 0 || !r.running[h] || ran < time.Duration(max(h.nextLongLog, longLeases))*h.length {
		return
	}
	for h.nextLongLog = max(h.nextLongLog, longLeases); ran >= time.Duration(h.nextLongLog)*h.length; {
		h.nextLongLog *= 10
	}
	r.logJob(slog.LevelWarn, "handler runs for long; if it may hang, set a job timeout", h.job,
		slog.Int("attempt", h.job.Attempt), slog.Duration("ran", ran), slog.Duration("lease", h.length))
}
