package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
)

// Handle is the handler of every job.
func (w *Lines) Handle(ctx context.Context, job *dibs.RawJob) error {
	steps, err := w.stepsOf(ctx, job)
	if err != nil {
		return notStarted(err)
	}
	line, err := lineOf(job, steps)
	if err != nil {
		return dibs.Die(err)
	}
	s := w.takeSeat()
	defer w.freeSeat(s)
	for {
		p, err := w.taker(s)
		switch {
		case errors.Is(err, errDraining):
			return dibs.Release()
		case err != nil:
			return notStarted(err)
		}
		j, has := p.give(job, line)
		if has {
			return dibs.Release()
		}
		if j != nil {
			a := p.await(ctx, j)
			p.rest()
			if a != nil {
				return w.result(job, a)
			}
			if err := p.unanswered(ctx, j); !errors.Is(err, errUnread) {
				return err
			}
		}
	}
}

// takeSeat returns the seat with the fewest jobs. The worker runs no more handlers at once than
// there is room for.
func (w *Lines) takeSeat() *lineSeat {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := slices.MinFunc(w.seats, func(a, b *lineSeat) int { return a.jobs - b.jobs })
	s.jobs++
	return s
}

func (w *Lines) freeSeat(s *lineSeat) {
	w.mu.Lock()
	s.jobs--
	w.mu.Unlock()
}

// await waits for the answer to a job, or for the end of its process, and has the process stop
// the job when ctx ends.
func (p *lineProcess) await(ctx context.Context, j *lineJob) *lineAnswer {
	for over := false; !over; {
		select {
		case a := <-j.asks:
			p.heed(ctx, j, a)
			continue
		case a := <-j.answer:
			p.putSteps(ctx, j)
			return &a
		case <-p.ended:
		case <-p.pool.StopAll:
			p.stop(0)
		case <-ctx.Done():
			p.interrupt(ctx, j)
		}
		over = true
	}
	p.putSteps(ctx, j)
	select {
	case a := <-j.answer: // an answer counts as long as the process lives
		return &a
	default:
		return nil
	}
}

// interrupt stops a job. A process that has only this one is stopped; one that has others is told,
// and stopped if it does not answer.
func (p *lineProcess) interrupt(ctx context.Context, j *lineJob) {
	cause := context.Cause(ctx)
	grace := p.pool.graceFor(cause, j.job)
	if p.pool.Shared {
		grace /= 2
		if p.tell(j, cause, grace) {
			return
		}
	}
	p.stop(grace)
}

// tell writes a line that says why a job is to stop, and waits for the answer.
func (p *lineProcess) tell(j *lineJob, cause error, grace time.Duration) (answered bool) {
	line, err := encodeLine(struct {
		ID    lineID     `json:"id"`
		Token dibs.Token `json:"token"`
		Stop  string     `json:"stop"`
	}{lineID(j.job.ID), j.job.Token, stopWord(cause)})
	if err != nil {
		return false // cannot happen
	}
	p.mu.Lock()
	p.send(line)
	p.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case a := <-j.answer:
		j.answer <- a
		return true
	case <-p.ended:
		return false
	case <-p.pool.StopAll:
		return false
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(j.answer) > 0 {
		return true
	}
	if !p.unheeding && len(p.jobs) > 1 && !errors.Is(cause, dibs.ErrShutdown) {
		p.pool.Log.Warn("a job has not stopped; its process is stopped, and its other jobs are given back", "job", term.KeyOf(j.job), "reason", stopWord(cause), "pid", p.cmd.Process.Pid)
	}
	p.unheeding = true
	return false
}

// stopWord says why a job is to stop.
func stopWord(cause error) string {
	switch {
	case errors.Is(cause, dibs.ErrCancelled):
		return "cancelled"
	case errors.Is(cause, dibs.ErrJobTimeout):
		return "timeout"
	case errors.Is(cause, dibs.ErrShutdown):
		return "shutdown"
	}
	return "lost"
}

// rest closes the stdin of a process without jobs that is to get no more.
func (p *lineProcess) rest() {
	p.pool.mu.Lock()
	draining := p.pool.draining
	p.pool.mu.Unlock()
	p.mu.Lock()
	last := !p.closed && len(p.jobs) == 0 && (draining || p.pool.MaxJobs > 0 && p.given >= p.pool.MaxJobs)
	p.mu.Unlock()
	if last {
		go p.retire()
	}
}

// errUnread says that a process has ended before it read a job.
var errUnread = errors.New("the job was not read")

// unanswered is the outcome of a job whose process has ended without an answer.
func (p *lineProcess) unanswered(ctx context.Context, j *lineJob) error {
	p.mu.Lock()
	broken, unheeding := p.broken, p.unheeding
	stderr := strings.TrimSpace(p.errs.String())
	p.mu.Unlock()
	if isClosed(p.pool.StopAll) {
		return dibs.Release()
	}
	if ctx.Err() != nil { // the worker knows the reason
		return errors.New(strings.TrimSpace("the process was stopped\n\n" + stderr))
	}
	why := broken
	if why == "" {
		why = "the process ended without an answer: " + p.whatHappened()
	} else if stderr != "" {
		why += "\n\n" + stderr
	}
	switch read := p.read > j.offset; {
	case !read && p.read > 0: // it ended between two jobs, as it may
		return errUnread
	case !read:
		return fmt.Errorf("%w: no job was read: %s", dibs.ErrNotStarted, why)
	case broken == "" && unheeding:
		return dibs.Release()
	}
	return dibs.Retry(errors.New(why))
}

// result turns an answer into the error that the worker turns into an outcome.
func (w *Lines) result(job *dibs.RawJob, a *lineAnswer) error {
	o, err := a.outcome(w.Snooze)
	if err != nil {
		return dibs.Retry(fmt.Errorf("the process answered wrongly: %w", err))
	}
	failure := errors.New(o.Error)
	switch o.Ending {
	case dibs.EndCompleted:
		if !w.NoResult {
			job.Result = o.Result
		}
		job.Add(o.Add...)
		return nil
	case dibs.EndSnooze:
		return dibs.Snooze(*o.Delay)
	case dibs.EndRelease:
		return dibs.Release()
	case dibs.EndDead:
		return dibs.Die(failure)
	case dibs.EndCancelled:
		return cancelledError(o.Error)
	}
	if o.Delay != nil {
		return dibs.RetryAfter(*o.Delay, failure)
	}
	return dibs.Retry(failure)
}

// cancelledError is what a process says of a job that it ends as cancelled.
type cancelledError string

func (e cancelledError) Error() string      { return string(e) }
func (e cancelledError) Is(kind error) bool { return kind == dibs.ErrCancelled }
