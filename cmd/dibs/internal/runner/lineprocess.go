package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
)

// lineProcess is one process that stays: it reads jobs and writes answers, line by line. It answers
// each job, or it ends.
type lineProcess struct {
	pool    *Lines
	cmd     *exec.Cmd
	streams *streams
	out     *lineSplitter
	err     *lineSplitter

	stopping chan struct{} // closed when it is told to stop
	ended    chan struct{} // closed when it has ended and all that it wrote was read
	waitErr  error         // how it ended; set before ended is closed
	read     int64         // how many bytes of its stdin it has read; set before ended is closed

	wrote atomic.Bool // it has written a line to stdout

	mu        sync.Mutex
	jobs      map[int64]*lineJob // jobs that it has not answered
	given     int                // how many jobs it was given
	silence   *time.Timer        // runs from the first job on, see noteSilence; nil before
	closed    bool               // it is given no more jobs
	gone      bool               // it has ended: nothing more is written
	broken    string             // what it has done that the protocol does not allow
	unheeding bool               // it is stopped because it did not stop one of its jobs
	errs      tail               // the end of stderr

	writing sync.WaitGroup
	flushes bool   // a goroutine writes to stdin
	unsent  []byte // lines that the goroutine has yet to write
	queued  int64  // bytes given to stdin, written or not
	written int64
}

// lineJob is a job that a process was given.
type lineJob struct {
	job    *dibs.RawJob
	offset int64           // where its line begins in the process' stdin
	answer chan lineAnswer // has room for the only answer
	asks   chan lineAnswer // steps to write and questions to answer, which the job's handler does
}

// startProcess starts a process.
func (w *Lines) startProcess() (*lineProcess, error) {
	p := &lineProcess{
		pool: w, cmd: exec.Command(w.Argv[0], w.Argv[1:]...), jobs: map[int64]*lineJob{}, errs: tail{limit: dibs.MaxErrorText},
		stopping: make(chan struct{}), ended: make(chan struct{}),
	}
	p.cmd.Env = w.Env
	p.out = &lineSplitter{take: p.readLine, closed: func() { p.streamClosed("stdout") }, most: func(start []byte) int {
		if isObject(start) {
			return maxAnswer
		}
		return MaxLog
	}}
	p.err = &lineSplitter{take: p.readError, most: func([]byte) int { return MaxLog }}
	var err error
	if p.streams, err = openStreams(); err != nil {
		return nil, err
	}
	if err = p.streams.start(p.cmd, w.spawner.Start, p.out, p.err); err != nil {
		return nil, err
	}
	w.Log.Debug("process started", "pid", p.cmd.Process.Pid)
	go awaitNoReader(p.streams.stdin(), func() { p.streamClosed("stdin") })
	return p, nil
}

// watch waits for the end of the process.
func (p *lineProcess) watch() {
	p.waitErr = p.cmd.Wait()
	p.mu.Lock()
	p.closed, p.gone = true, true
	if p.silence != nil {
		p.silence.Stop()
	}
	p.mu.Unlock()
	p.streams.drain(leftoverWait, p.stopping)
	killGroup(p.cmd.Process.Pid)
	if p.streams.stdin().SetWriteDeadline(time.Now()) != nil { // the system has no deadlines for pipes
		_ = p.streams.stdin().Close()
	}
	p.writing.Wait()
	p.read = p.written - int64(unread(p.streams.stdin()))
	p.streams.end()
	p.out.flush()
	p.err.flush()
	close(p.ended)
}

// close has the process given no more jobs. It reports whether that is new.
func (p *lineProcess) close() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.closed = true }()
	return !p.closed
}

// give sends a job to the process; nil: it takes no more. has reports that the process has an
// earlier attempt of the same job, which it was told to stop.
func (p *lineProcess) give(job *dibs.RawJob, line []byte) (j *lineJob, has bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full() { // jobs of other goroutines may have come first
		return nil, false
	}
	if p.jobs[job.ID] != nil {
		return nil, true
	}
	if !p.pool.Shared {
		p.errs.kept, p.errs.cut = p.errs.kept[:0], false // what it wrote before belongs to other jobs
	}
	j = &lineJob{job: job, offset: p.queued, answer: make(chan lineAnswer, 1), asks: make(chan lineAnswer, maxUnanswered)}
	p.jobs[job.ID] = j
	if p.given++; p.given == 1 {
		p.silence = time.AfterFunc(p.pool.silentAfter, func() { p.pool.noteSilence(p) })
	}
	p.send(line)
	return j, false
}

// send writes a line to stdin, on a goroutine, since a process may not read for long. It writes
// all lines together that come meanwhile.
func (p *lineProcess) send(line []byte) {
	p.queued += int64(len(line))
	if p.gone {
		return
	}
	p.unsent = append(p.unsent, line...)
	if !p.flushes {
		p.flushes = true
		p.writing.Go(p.flush)
	}
}

func (p *lineProcess) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var spare []byte
	for len(p.unsent) > 0 {
		text := p.unsent
		p.unsent = spare[:0]
		p.mu.Unlock()
		n, err := p.streams.stdin().Write(text)
		p.mu.Lock()
		p.written += int64(n)
		if err != nil { // it has closed its stdin, or has ended; watch tells
			p.unsent = nil
			p.streamClosed("stdin")
			return // flushes stays true: nothing more is written
		}
		if spare = text; cap(spare) > 4*MaxLog {
			spare = nil
		}
	}
	p.unsent, p.flushes = spare[:0], false
}

// readLine takes a line of stdout.
func (p *lineProcess) readLine(line []byte, cut bool) {
	p.wrote.Store(true)
	if !isObject(line) {
		p.pool.show(p, line, cut)
		return
	}
	if cut {
		p.fail(fmt.Sprintf("the process wrote a line of more than %d bytes", maxAnswer))
		return
	}
	a, err := readAnswer(bytes.TrimLeft(line, " \t\ufeff"))
	switch {
	case errors.Is(err, errLogLine):
		p.pool.show(p, line, false)
	case err != nil:
		p.fail(fmt.Sprintf("the process wrote what is no answer: %v: %s", err, term.Clip(words.Printable(string(line)), 200)))
	default:
		p.take(a)
	}
}

// take gives an answer to the handler that waits for it.
func (p *lineProcess) take(a lineAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := int64(*a.ID)
	j := p.jobs[id]
	if j != nil && !a.Token.IsZero() && a.Token != j.job.Token { // a second answer to an earlier attempt
		j = nil
	}
	switch {
	case p.broken != "":
	case j == nil:
		p.pool.Log.Warn("an answer for a job that the process does not have, or has answered, is ignored", "job", id, "ending", term.Clip(words.Printable(string(a.Ending)), 20), "pid", p.cmd.Process.Pid)
	case a.Progress != nil:
		if err := j.job.SetProgress(a.Progress.Done, a.Progress.Total, a.Progress.Text); err != nil {
			p.pool.Log.Warn("a job's progress is ignored", "job", id, "error", err, "pid", p.cmd.Process.Pid)
		}
	case a.asks || a.wrong == nil && (a.Step != "" || a.Before != nil):
		select {
		case j.asks <- a:
		default:
			delete(p.jobs, id)
			a.wrong = fmt.Errorf("it writes steps or asks what came before, and does not wait for the answers: %d at once at most", maxUnanswered)
			j.answer <- a
		}
	default:
		delete(p.jobs, id)
		j.answer <- a
	}
}

// readError takes a line of stderr.
func (p *lineProcess) readError(line []byte, cut bool) {
	p.mu.Lock()
	_, _ = p.errs.Write(line)
	_, _ = p.errs.Write([]byte{'\n'})
	p.mu.Unlock()
	p.pool.show(p, line, cut)
}

// streamClosed has the process stopped unless it has just ended: without a stdin and a stdout it
// is of no use.
func (p *lineProcess) streamClosed(name string) {
	time.AfterFunc(leftoverWait, func() {
		if !hasEnded(p.cmd.Process) && !isClosed(p.stopping) {
			p.fail("the process has closed its " + name)
		}
	})
}

// fail stops a process that does not keep to the protocol. Its jobs have failed.
func (p *lineProcess) fail(why string) {
	p.mu.Lock()
	first := p.broken == "" && !isClosed(p.ended)
	if first {
		p.broken = why
	}
	p.mu.Unlock()
	if first {
		p.pool.Log.Warn(why+"; it is stopped", "pid", p.cmd.Process.Pid)
		go p.stop(p.pool.Grace)
	}
}

// stop ends the process and what it has started: by SIGTERM, and by SIGKILL after the grace.
func (p *lineProcess) stop(grace time.Duration) {
	p.mu.Lock()
	p.closed = true
	if !isClosed(p.stopping) {
		close(p.stopping)
	}
	p.mu.Unlock()
	if !isClosed(p.ended) && !isClosed(p.pool.StopAll) {
		terminateGroup(p.cmd.Process.Pid)
		p.waitFor(grace)
	}
	if !isClosed(p.ended) {
		killGroup(p.cmd.Process.Pid)
	}
	<-p.ended
}

// waitFor waits for the end of the process.
func (p *lineProcess) waitFor(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-p.pool.StopAll:
	case <-timer.C:
	}
}

// retire closes the stdin of a process that has no job, and stops it if it does not end.
func (p *lineProcess) retire() {
	if !p.close() {
		return
	}
	_ = p.streams.stdin().Close() // it may have ended
	grace := min(p.pool.Grace, maxGrace) / 2
	p.waitFor(grace)
	p.stop(grace)
}

// whatHappened tells how the process ended and what it wrote to stderr last.
func (p *lineProcess) whatHappened() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return failureText(p.cmd.ProcessState.ExitCode(), p.waitErr, strings.TrimSpace(p.errs.String()))
}
