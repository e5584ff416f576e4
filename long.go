package dibs

import (
	"log/slog"
	"time"
)

// longLeases is how many times its lease a handler runs before noteLong logs it, which
// then logs again at ten times as many, and so on.
const longLeases = 10

// noteLong logs that a handler has run for long without a timeout: the worker extends the lease of
// a handler that hangs, so its job is never run again. It also logs a handler that goes on for
// a lease after its timeout: as nothing else can end it, its lease is extended all the same.
func (r *run) noteLong(h *held, now time.Time) {
	f := r.handler(h.job.Kind)
	if !r.attempts.running[h] || f == nil {
		return
	}
	ran, first, text := now.Sub(h.start), longLeases, "handler runs for long; if it may hang, set a job timeout"
	long := ran
	switch over := h.overtime(f, now); {
	case over > 0:
		long, first, text = over, 1, "handler goes on though its time is over: it does not heed its context, and only the end of its process ends it"
	case f.Timeout > 0, ran < h.job.Timeout:
		return
	}
	if long < time.Duration(max(h.nextLongLog, first))*h.length {
		return
	}
	for h.nextLongLog = max(h.nextLongLog, first); long >= time.Duration(h.nextLongLog)*h.length; {
		h.nextLongLog *= 10
	}
	r.logJob(slog.LevelWarn, text, h.job, slog.Int("attempt", h.job.Attempt), slog.Duration("ran", ran), slog.Duration("lease", h.length))
}

// overtime is how long a handler has gone on after its context ended by a timeout, that of its
// kind or its queue's.
func (h *held) overtime(f *kindHandler, now time.Time) time.Duration {
	var over time.Duration
	if !h.timedOutAt.IsZero() {
		over = now.Sub(h.timedOutAt)
	}
	if f.Timeout > 0 {
		over = max(over, now.Sub(h.start)-f.Timeout)
	}
	return over
}
