package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
)

// linePool gives jobs to processes that stay: 'dibs work --lines'.
type linePool struct {
	*program
	store   dibs.Store
	shared  bool // a process has several jobs at once
	maxJobs int  // how many jobs a process is given; 0: any number
	json    bool // the log is JSON
	stderr  io.Writer

	mu       sync.Mutex
	seats    []*lineSeat
	all      map[*lineProcess]bool
	draining bool // no more jobs come
	running  sync.WaitGroup
}

// lineSeat is the place of one process. When it ends, another takes its seat.
type lineSeat struct {
	jobs int // that use the seat; the pool's mutex guards it

	mu      sync.Mutex
	process *lineProcess // nil before the first
}

func (a *app) newLinePool(p *program, f *workFlags, store dibs.Store) *linePool {
	places, seats := 1, f.concurrency
	if f.shared {
		seats = min(f.processes, f.concurrency)
		places = (f.concurrency + seats - 1) / seats
	}
	p.env = append(p.env, "DIBS_LINES="+linesVersion, "DIBS_CONCURRENCY="+strconv.Itoa(places))
	w := &linePool{program: p, store: store, shared: f.shared, maxJobs: f.maxJobs, json: a.json, stderr: a.stderr, all: map[*lineProcess]bool{}}
	for range seats {
		s := &lineSeat{}
		w.seats = append(w.seats, s)
		go w.fill(s, nil)
	}
	return w
}

// fill starts a process ahead of its first job, where old sat before.
func (w *linePool) fill(s *lineSeat, old *lineProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != old {
		return
	}
	if err := w.seat(s); err != nil && !errors.Is(err, errDraining) {
		w.log.Warn("a process could not be started; it is tried again when a job comes", "error", err)
	}
}

// errDraining says that no more processes are started.
var errDraining = errors.New("the worker is stopping")

// seat starts a process and has it watched.
func (w *linePool) seat(s *lineSeat) error {
	w.mu.Lock()
	if w.draining {
		w.mu.Unlock()
		return errDraining
	}
	w.running.Add(1)
	w.mu.Unlock()
	p, err := w.startProcess()
	if err != nil {
		w.running.Done()
		return err
	}
	s.process = p
	w.mu.Lock()
	w.all[p] = true
	late := w.draining
	w.mu.Unlock()
	go func() {
		p.watch()
		w.mu.Lock()
		delete(w.all, p)
		w.mu.Unlock()
		w.noteEnd(p)
		if p.read > 0 { // it has begun a job; one that has not may be unable to
			w.fill(s, p)
		}
		w.running.Done()
	}()
	if late {
		go p.retire()
	}
	return nil
}

// noteEnd logs the end of a process that nothing else tells of.
func (w *linePool) noteEnd(p *lineProcess) {
	p.mu.Lock()
	told := len(p.jobs) > 0 || isClosed(p.stopping)
	p.mu.Unlock()
	switch {
	case told || p.cmd.ProcessState.Success():
		w.log.Debug("process ended", "pid", p.cmd.Process.Pid, "jobs", p.given)
	default:
		w.log.Warn("a process without a job has ended", "pid", p.cmd.Process.Pid, "error", printable(p.whatHappened()))
	}
}

// taker returns the process of a seat, or a new one if that takes no more jobs.
func (w *linePool) taker(s *lineSeat) (*lineProcess, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.process; p != nil && !p.full() {
		return p, nil
	}
	if err := w.seat(s); err != nil {
		return nil, err
	}
	return s.process, nil
}

// full reports whether the process takes no more jobs.
func (p *lineProcess) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed || p.pool.maxJobs > 0 && p.given >= p.pool.maxJobs
}

// handle is the handler of every job.
func (w *linePool) handle(ctx context.Context, job *dibs.RawJob) error {
	line, err := lineOf(job)
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
				return w.result(ctx, job, a)
			}
			if err := p.unanswered(ctx, j); !errors.Is(err, errUnread) {
				return err
			}
		}
	}
}

// takeSeat returns the seat with the fewest jobs. The worker runs no more handlers at once than
// there is room for.
func (w *linePool) takeSeat() *lineSeat {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := slices.MinFunc(w.seats, func(a, b *lineSeat) int { return a.jobs - b.jobs })
	s.jobs++
	return s
}

func (w *linePool) freeSeat(s *lineSeat) {
	w.mu.Lock()
	s.jobs--
	w.mu.Unlock()
}

// await waits for the answer to a job, or for the end of its process, and has the process stop
// the job when ctx ends.
func (p *lineProcess) await(ctx context.Context, j *lineJob) *lineAnswer {
	select {
	case a := <-j.answer:
		return &a
	case <-p.ended:
	case <-p.pool.stopAll:
		p.stop(0)
	case <-ctx.Done():
		p.interrupt(ctx, j)
	}
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
	if p.pool.shared {
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
		ID   lineID `json:"id"`
		Stop string `json:"stop"`
	}{lineID(j.job.ID), stopWord(cause)})
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
	case <-p.pool.stopAll:
		return false
	case <-timer.C:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(j.answer) > 0 {
		return true
	}
	if !p.unheeding && len(p.jobs) > 1 && !errors.Is(cause, dibs.ErrShutdown) {
		p.pool.log.Warn("a job has not stopped; its process is stopped, and its other jobs are given back", "job", keyOf(j.job), "reason", stopWord(cause), "pid", p.cmd.Process.Pid)
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
	last := !p.closed && len(p.jobs) == 0 && (draining || p.pool.maxJobs > 0 && p.given >= p.pool.maxJobs)
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
	if isClosed(p.pool.stopAll) {
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
func (w *linePool) result(ctx context.Context, job *dibs.RawJob, a *lineAnswer) error {
	o, err := a.outcome(w.snooze)
	if err != nil {
		return dibs.Retry(fmt.Errorf("the process answered wrongly: %w", err))
	}
	failure := errors.New(o.Error)
	switch o.Ending {
	case dibs.EndCompleted:
		if !w.noResult {
			job.Result = o.Result
		}
		return nil
	case dibs.EndSnooze:
		return dibs.Snooze(*o.Delay)
	case dibs.EndRelease:
		return dibs.Release()
	case dibs.EndDead:
		return dibs.Die(failure)
	case dibs.EndCancelled:
		return w.cancel(ctx, job, o.Error)
	}
	if o.Delay != nil {
		return dibs.RetryAfter(*o.Delay, failure)
	}
	return dibs.Retry(failure)
}

// cancel ends a job as cancelled: a handler has no error that says so.
func (w *linePool) cancel(ctx context.Context, job *dibs.RawJob, text string) error {
	if errors.Is(context.Cause(ctx), dibs.ErrCancelled) {
		return errors.New(text)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), interruptGrace)
	defer stop()
	if err := w.store.Finish(ctx, []dibs.Outcome{job.Lease().Cancel(text)}); err != nil {
		return err
	}
	return dibs.ErrFinished
}

// show passes on a line of a process' log.
func (w *linePool) show(p *lineProcess, line []byte, cut bool) {
	text := printable(strings.TrimRight(string(line), "\r"))
	if cut {
		text += cutMark
	}
	if w.json {
		w.log.Info("output of a process", "pid", p.cmd.Process.Pid, "line", text)
		return
	}
	_, _ = io.WriteString(w.stderr, text+"\n") // it is a log
}

// drain has every process end once it has no job.
func (w *linePool) drain() {
	w.mu.Lock()
	w.draining = true
	list := w.processes()
	w.mu.Unlock()
	for _, p := range list {
		p.rest()
	}
}

// close ends all processes. No handler may be running, but those that ignored the end of their
// contexts.
func (w *linePool) close() {
	w.drain()
	w.mu.Lock()
	list := w.processes()
	w.mu.Unlock()
	for _, p := range list {
		p.mu.Lock()
		left := len(p.jobs)
		p.mu.Unlock()
		if left > 0 {
			go p.stop(0)
		}
	}
	w.running.Wait()
}

func (w *linePool) processes() []*lineProcess { return slices.Collect(maps.Keys(w.all)) }

// lockedWriter lets several goroutines write.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}
