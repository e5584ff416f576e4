package runner

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/words"
)

// Lines gives jobs to processes that stay: 'dibs work --lines'.
type Lines struct {
	*Program
	LineOptions

	silentAfter time.Duration // how long after its first job a process that has written nothing is noted
	silence     sync.Once     // guards that note

	mu       sync.Mutex
	seats    []*lineSeat
	all      map[*lineProcess]bool
	draining bool // no more jobs come
	running  sync.WaitGroup
}

// lineSeat is the place of one process. When it ends, another takes its seat.
type lineSeat struct {
	jobs int // how many jobs use the seat; the pool's mutex guards it

	mu      sync.Mutex
	process *lineProcess // the process in the seat; nil before the first one
}

// unbuffered is the variable that has Python write at once what it prints.
const unbuffered = "PYTHONUNBUFFERED"

// LineOptions say how jobs are shared among processes that stay.
type LineOptions struct {
	Concurrency int        // jobs at once
	Processes   int        // how many processes share the jobs, if Shared is set
	Shared      bool       // a process gets several jobs at once
	MaxJobs     int        // how many jobs a process is given; 0: any number
	JSON        bool       // the log is JSON
	Stderr      io.Writer  // where the processes' logs go
	Store       dibs.Store // keeps the steps of jobs, and knows what came before them, if it can
}

func NewLines(p *Program, o LineOptions) *Lines {
	places, seats := 1, o.Concurrency
	if o.Shared {
		seats = min(o.Processes, o.Concurrency)
		places = (o.Concurrency + seats - 1) / seats
	}
	p.Env = append(p.Env, "DIBS_LINES="+linesVersion, "DIBS_CONCURRENCY="+strconv.Itoa(places))
	if _, set := os.LookupEnv(unbuffered); !set { // Python keeps what it prints to a pipe back until it has 8 KiB of it
		p.Env = append(p.Env, unbuffered+"=1")
	}
	w := &Lines{Program: p, LineOptions: o, silentAfter: time.Minute, all: map[*lineProcess]bool{}}
	for range seats {
		s := &lineSeat{}
		w.seats = append(w.seats, s)
		go w.fill(s, nil)
	}
	return w
}

// fill starts a process ahead of its first job, where old sat before.
func (w *Lines) fill(s *lineSeat, old *lineProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != old {
		return
	}
	if err := w.seat(s); err != nil && !errors.Is(err, errDraining) {
		w.Log.Warn("a process could not be started; it is tried again when a job comes", "error", err)
	}
}

// errDraining says that no more processes are started.
var errDraining = errors.New("the worker is stopping")

// seat starts a process and has it watched.
func (w *Lines) seat(s *lineSeat) error {
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
func (w *Lines) noteEnd(p *lineProcess) {
	p.mu.Lock()
	told := len(p.jobs) > 0 || isClosed(p.stopping)
	p.mu.Unlock()
	switch {
	case told || p.cmd.ProcessState.Success():
		w.Log.Debug("process ended", "pid", p.cmd.Process.Pid, "jobs", p.given)
	default:
		w.Log.Warn("a process without a job has ended", "pid", p.cmd.Process.Pid, "error", words.Printable(p.whatHappened()))
	}
}

// taker returns the process of a seat, or a new one if that takes no more jobs.
func (w *Lines) taker(s *lineSeat) (*lineProcess, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.process; p != nil {
		p.mu.Lock()
		full := p.full()
		p.mu.Unlock()
		if !full {
			return p, nil
		}
	}
	if err := w.seat(s); err != nil {
		return nil, err
	}
	return s.process, nil
}

// full reports whether the process takes no more jobs. The caller holds p.mu.
func (p *lineProcess) full() bool {
	return p.closed || p.pool.MaxJobs > 0 && p.given >= p.pool.MaxJobs
}

// noteSilence logs, once, that a process has written nothing since it was given its first job.
func (w *Lines) noteSilence(p *lineProcess) {
	if !p.wrote.Load() {
		w.silence.Do(func() {
			w.Log.Warn("a process has written nothing to stdout since it was given a job", "pid", p.cmd.Process.Pid, "after", w.silentAfter,
				"hint", "if it has answered, it may not flush its output: have it flush stdout after each line")
		})
	}
}

// show passes on a line of a process' log.
func (w *Lines) show(p *lineProcess, line []byte, cut bool) {
	text := words.Printable(strings.TrimRight(string(line), "\r"))
	if cut {
		text += cutMark
	}
	if w.JSON {
		w.Log.Info("output of a process", "pid", p.cmd.Process.Pid, "line", text)
		return
	}
	_, _ = io.WriteString(w.Stderr, text+"\n") // it is a log
}

// Drain has every process end once it has no job.
func (w *Lines) Drain() {
	w.mu.Lock()
	w.draining = true
	list := w.processes()
	w.mu.Unlock()
	for _, p := range list {
		p.rest()
	}
}

// Close ends all processes. No handler may be running, but those that ignored the end of their
// contexts.
func (w *Lines) Close() {
	w.Drain()
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

func (w *Lines) processes() []*lineProcess { return slices.Collect(maps.Keys(w.all)) }

// LockedWriter lets several goroutines write.
type LockedWriter struct {
	mu sync.Mutex
	To io.Writer
}

func (l *LockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.To.Write(p)
}
