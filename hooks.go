package dibs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"
)

// Hooks observe a worker. All are optional. They are called one at a time on the
// goroutine that runs the worker, so they must be quick and must not block; jobs
// are for reading only. What a hook panics with is logged as an error, and the worker
// goes on.
type Hooks struct {
	// Log gets dead jobs and panics of hooks as errors; failed attempts, lost leases, database
	// errors, and handlers that have run for 10, 100 and so on times their lease without a
	// JobTimeout as warnings; start and stop as information, at last with how many attempts
	// ended how; every claim, start and finish, and outcomes that wait for another
	// transaction's lock, at level debug. Default: slog.Default(). slog.DiscardHandler
	// silences it.
	Log *slog.Logger

	// Claimed: a claim that lasted took has returned jobs.
	Claimed func(jobs []*RawJob, took time.Duration)
	// Started: a handler is about to run. ctx is that of its attempt, without the timeout.
	Started func(ctx context.Context, job *RawJob)
	// Finished: an attempt has ended.
	Finished func(a Attempt)
	// LeaseLost: the handler of a job was told to stop, because its lease is lost or
	// about to end. Finished follows when the handler has returned.
	LeaseLost func(job *RawJob, reason error)
	// Error: a call to the store failed: "claim", "due", "resume", "extend", "finish", "sweep" or
	// "register". It is repeated.
	Error func(call string, err error)
}

// Attempt is one run of a job by this worker.
type Attempt struct {
	Job *RawJob
	Err error // what the handler returned
	// Outcome is the outcome to write. Its Ending is dead for a failure that leaves no
	// attempts, and empty if the handler has finished the job itself, by Tx.Finish.
	Outcome Outcome
	// NotWritten is nil when the outcome was written. It Is ErrLeaseLost when the
	// lease was lost before.
	NotWritten error
	Waited     time.Duration // time from RunAt to the claim; 0 where the job has no RunAt
	Ran        time.Duration // how long the handler ran; 0 when it was not started
}

func (h *Hooks) fill() {
	if h.Log == nil {
		h.Log = slog.Default()
	}
}

func (r *run) log(level slog.Level, text string, attrs ...slog.Attr) {
	r.logOf(r.queueAttr(), level, text, attrs...)
}

// logJob logs what concerns one job: of several queues, it names the job's.
func (r *run) logJob(level slog.Level, text string, j *RawJob, attrs ...slog.Attr) {
	queue := r.queueAttr()
	if len(r.Queues) > 1 {
		queue = slog.String("queue", j.Queue)
	}
	r.logOf(queue, level, text, append(named(j), attrs...)...)
}

func (r *run) logOf(queue slog.Attr, level slog.Level, text string, attrs ...slog.Attr) {
	defer func() { _ = recover() }() // the user's slog.Handler may panic, and there is nowhere to report it
	r.Hooks.Log.LogAttrs(context.Background(), level, text, append(attrs, queue, slog.String("worker", r.Name))...)
}

// queueAttr names the worker's queue, or all of its queues.
func (r *run) queueAttr() slog.Attr {
	if len(r.Queues) == 1 {
		return slog.String("queue", r.Queues[0].Name)
	}
	names := make([]string, len(r.Queues))
	for i, q := range r.Queues {
		names[i] = q.Name
	}
	return slog.Any("queues", names)
}

// debug spares the cost of a record's attributes when it would not be written.
func (r *run) debug() bool {
	defer func() { _ = recover() }() // the user's slog.Handler may panic
	return r.Hooks.Log.Enabled(context.Background(), slog.LevelDebug)
}

// guard is deferred around a hook: it logs what the hook panics with.
func (r *run) guard(hook string) {
	if p := recover(); p != nil {
		r.log(slog.LevelError, "hook panicked", slog.String("hook", hook), slog.String("panic", fmt.Sprint(p)), slog.String("stack", trim(string(debug.Stack()))))
	}
}

func (r *run) onStart() {
	attrs := []slog.Attr{slog.Int("concurrency", r.Concurrency)}
	if r.kinds != nil { // an empty list would read as no kind, and means all
		attrs = append(attrs, slog.Any("kinds", r.kinds))
	}
	r.log(slog.LevelInfo, "worker started", attrs...)
	elsewhere := r.unserved() // another worker may serve these queues
	for _, queue := range slices.Sorted(maps.Keys(elsewhere)) {
		r.log(slog.LevelWarn, "jobs of these kinds go to a queue that this worker does not serve", slog.String("kind_queue", queue), slog.Any("kinds", elsewhere[queue]))
	}
}

// onStop logs why the worker stops: the cause of the end of a context of signal.NotifyContext
// names the signal.
func (r *run) onStop(reason error) {
	r.log(slog.LevelInfo, "worker stopping", slog.String("reason", reason.Error()), slog.Int("running", len(r.attempts.running)), slog.Duration("wait", r.ShutdownWait))
}

// onStopped logs how many attempts the worker has made, by how they ended.
func (r *run) onStopped() {
	var attrs []slog.Attr
	for _, ending := range []Ending{EndCompleted, EndRetry, EndDead, EndCancelled, EndSnooze, EndRelease} {
		if n := r.attempts.endings[ending]; n > 0 || ending == EndCompleted {
			attrs = append(attrs, slog.Int(string(ending), n))
		}
	}
	if n := r.attempts.endings[""]; n > 0 {
		attrs = append(attrs, slog.Int("finished_by_handler", n))
	}
	r.log(slog.LevelInfo, "worker stopped", attrs...)
}

func (r *run) onClaimed(q *feed, jobs []*RawJob, took time.Duration) {
	if r.debug() {
		r.logOf(slog.String("queue", q.Name), slog.LevelDebug, "jobs claimed", slog.Int("jobs", len(jobs)), slog.Duration("took", took))
	}
	if f := r.Hooks.Claimed; f != nil {
		defer r.guard("Claimed")
		f(jobs, took)
	}
}

func (r *run) onStarted(ctx context.Context, job *RawJob) {
	if r.debug() {
		r.logJob(slog.LevelDebug, "job started", job, slog.Int("attempt", job.Attempt))
	}
	if f := r.Hooks.Started; f != nil {
		defer r.guard("Started")
		f(ctx, job)
	}
}

func (r *run) onFinished(h *held, notWritten error) {
	a := Attempt{Job: h.job, Err: h.err, Outcome: h.outcome, NotWritten: notWritten, Ran: h.ran}
	if waitKnown(h.job) {
		a.Waited = h.job.ClaimedAt.Sub(h.job.RunAt)
	}
	if a.Outcome.Ending == EndRetry && h.job.After(a.Outcome) == Dead {
		a.Outcome.Ending = EndDead // the store makes a job dead whose attempts are used up
	}
	if notWritten == nil {
		r.attempts.endings[a.Outcome.Ending]++
	}
	r.logFinished(a)
	if f := r.Hooks.Finished; f != nil {
		defer r.guard("Finished")
		f(a)
	}
}

// waitKnown reports whether a job tells how long it has waited: rows of an adopted table may not.
func waitKnown(j *RawJob) bool { return !j.RunAt.IsZero() && !j.ClaimedAt.IsZero() }

// named are the attributes that tell which job it is: an adopted row by its own id, too.
func named(j *RawJob) []slog.Attr {
	attrs := []slog.Attr{slog.Int64("job", j.ID)}
	if j.Key != "" {
		attrs = append(attrs, slog.String("key", j.Key))
	}
	return append(attrs, slog.String("kind", j.Kind))
}

func (r *run) logFinished(a Attempt) {
	level, text := slog.LevelDebug, "job finished"
	switch {
	case a.NotWritten != nil:
		level, text = slog.LevelWarn, "outcome not written"
	case a.Outcome.Ending == EndDead:
		level, text = slog.LevelError, "job is dead"
	case a.Outcome.Ending == EndRetry:
		level, text = slog.LevelWarn, "attempt failed"
	case !r.debug():
		return
	}
	attrs := []slog.Attr{slog.Int("attempt", a.Job.Attempt)}
	if a.Job.MaxAttempts > 0 {
		attrs = append(attrs, slog.Int("max_attempts", a.Job.MaxAttempts))
	}
	attrs = append(attrs, slog.String("ending", string(a.Outcome.Ending)))
	if waitKnown(a.Job) {
		attrs = append(attrs, slog.Duration("waited", a.Waited))
	}
	attrs = append(attrs, slog.Duration("ran", a.Ran))
	if a.Outcome.Error != "" {
		attrs = append(attrs, slog.String("error", a.Outcome.Error))
	}
	if a.NotWritten != nil {
		attrs = append(attrs, slog.String("reason", a.NotWritten.Error()))
	}
	r.logJob(level, text, a.Job, attrs...)
}

func (r *run) onLeaseLost(job *RawJob, reason error) {
	r.logJob(slog.LevelWarn, "handler told to stop", job, slog.String("reason", reason.Error()))
	if f := r.Hooks.LeaseLost; f != nil {
		defer r.guard("LeaseLost")
		f(job, reason)
	}
}

// blockedOften is how many attempts to write an outcome meet another transaction's lock,
// over about a second, before the worker logs a warning. Short locks are normal.
const blockedOften = 20

// onUnwritten reports a Finish that failed. When another transaction holds the rows of its
// jobs, it logs one warning for each job, and only when that lasts.
func (r *run) onUnwritten(batch []*held, err error) {
	if locked := (*FinishError)(nil); !errors.As(err, &locked) {
		r.onError("finish", err)
		return
	}
	level := slog.LevelDebug
	for _, h := range batch {
		if h.blocked++; h.blocked == blockedOften {
			level = slog.LevelWarn
		}
	}
	r.log(level, "another transaction holds the rows of jobs; writing their outcomes again", slog.Int("jobs", len(batch)), slog.String("error", err.Error()))
	r.tellError("finish", err)
}

func (r *run) onPause(job *RawJob, err error, wait time.Duration) {
	r.logJob(slog.LevelWarn, "job not started; it is given back, and claims pause", job,
		slog.String("error", fmt.Sprint(err)), slog.Duration("pause", wait))
}

func (r *run) onError(call string, err error) {
	text := "database call failed; repeating it"
	switch {
	case errors.Is(r.shutdown.fatal, err):
		text = "database call failed; the worker ends"
	case errors.Is(err, ErrInvalid):
		text = "a database call is refused: a field is wrong"
	}
	r.log(slog.LevelWarn, text, slog.String("call", call), slog.String("error", err.Error()))
	r.tellError(call, err)
}

func (r *run) tellError(call string, err error) {
	if f := r.Hooks.Error; f != nil {
		defer r.guard("Error")
		f(call, err)
	}
}
