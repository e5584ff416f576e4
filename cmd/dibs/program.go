package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
)

// The exit codes of programs that mean something; see 'dibs work --help'.
const (
	programDead     = 100
	programSnooze   = 101
	programFinished = 102
)

const (
	// maxGrace at shutdown: the worker waits 3 s for handlers that it stops.
	maxGrace = 2 * time.Second
	// leftoverWait is how long processes that the program has left behind may go on
	// writing, such as the tee of a pipeline.
	leftoverWait = time.Second
	// delayLine begins the last line of stderr that chooses a delay.
	delayLine = "dibs: delay "
)

// program runs one child process per job.
type program struct {
	argv     []string
	env      []string
	grace    time.Duration
	snooze   time.Duration
	text     bool
	noResult bool
	now      <-chan struct{} // closed: stop everything at once
	log      *slog.Logger
	spawner  *spawner
	table    *adoptedTable // whose rows the jobs are; nil: they are jobs of dibs
}

func newProgram(f *workFlags, env []string, now <-chan struct{}) *program {
	return &program{
		argv:     f.argv,
		env:      env,
		grace:    time.Duration(f.grace),
		snooze:   time.Duration(f.snooze),
		text:     f.text,
		noResult: f.noResult,
		now:      now,
		log:      slog.New(slog.DiscardHandler),
		spawner:  newSpawner(),
	}
}

// close is called when no program runs any more.
func (p *program) close() { p.spawner.close() }

// handle is the handler of every job.
func (p *program) handle(ctx context.Context, job *dibs.RawJob) error {
	out, errs := &head{most: dibs.MaxResult}, &tail{most: dibs.MaxErrorText}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env = append(p.env[:len(p.env):len(p.env)], p.jobEnv(job)...)
	streams, err := openStreams()
	if err == nil {
		err = streams.start(cmd, p.spawner.start, p.input(job), out, errs)
	}
	if err != nil {
		return notStarted(err)
	}
	stopped, err := p.wait(ctx, cmd, job)
	if !stopped {
		streams.drain(leftoverWait, ctx.Done())
	}
	killGroup(cmd.Process.Pid)
	streams.end()
	return p.outcome(job, cmd.ProcessState.ExitCode(), err, stopped, out, errs)
}

// notStarted is the outcome of a job whose program could not be started: the job's own fault
// only where its values do not fit into the environment, which the system does not number or
// counts as too long.
func notStarted(err error) error {
	if !errors.As(err, new(syscall.Errno)) || errors.Is(err, syscall.E2BIG) {
		return fmt.Errorf("the program did not start: %w", err)
	}
	return fmt.Errorf("%w: %w", dibs.ErrNotStarted, err)
}

// input is what the program reads.
func (p *program) input(job *dibs.RawJob) []byte {
	var text string
	if p.text && bytes.HasPrefix(bytes.TrimSpace(job.Payload), []byte{'"'}) && json.Unmarshal(job.Payload, &text) == nil {
		return []byte(text)
	}
	return job.Payload
}

func (p *program) jobEnv(job *dibs.RawJob) []string {
	env := []string{
		"DIBS_JOB_ID=" + strconv.FormatInt(job.ID, 10),
		"DIBS_QUEUE=" + job.Queue,
		"DIBS_KIND=" + job.Kind,
		"DIBS_ATTEMPT=" + strconv.Itoa(job.Attempt),
		"DIBS_GROUP=" + job.Group,
	}
	if job.MaxAttempts > 0 {
		env = append(env, "DIBS_MAX_ATTEMPTS="+strconv.Itoa(job.MaxAttempts))
	}
	if p.table != nil {
		env = append(env, "DIBS_JOB_KEY="+keyOf(job))
	}
	if p.table == nil || p.table.TokensLast() {
		env = append(env, "DIBS_TOKEN="+job.Token.String())
	}
	return env
}

// wait waits for the program's end, and brings it about when ctx ends. stopped
// says that it did.
func (p *program) wait(ctx context.Context, cmd *exec.Cmd, job *dibs.RawJob) (stopped bool, err error) {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
		return false, err
	case <-p.now:
	case <-ctx.Done():
	}
	if hasEnded(cmd.Process) { // in the same moment: nobody has told it to stop
		return false, <-ended
	}
	if !isClosed(p.now) {
		terminateGroup(cmd.Process.Pid)
		grace := time.NewTimer(p.graceFor(context.Cause(ctx), job))
		defer grace.Stop()
		select {
		case err = <-ended:
			return true, err
		case <-p.now:
		case <-grace.C:
		}
	}
	killGroup(cmd.Process.Pid)
	return true, <-ended
}

// graceFor is how long the program may take to stop. When its lease is lost that is
// half of what the worker leaves before another may run the job.
func (p *program) graceFor(cause error, job *dibs.RawJob) time.Duration {
	switch {
	case errors.Is(cause, dibs.ErrLeaseLost):
		return min(p.grace, job.LeaseUntil.Sub(job.ClaimedAt)/20)
	case errors.Is(cause, dibs.ErrShutdown):
		return min(p.grace, maxGrace)
	}
	return p.grace
}

// outcome turns how the program ended into what the worker writes.
func (p *program) outcome(job *dibs.RawJob, code int, err error, stopped bool, out *head, errs *tail) error {
	text, delay := splitDelay(errs.String())
	switch {
	case code == programFinished:
		return dibs.ErrFinished
	case stopped && isClosed(p.now):
		return dibs.Release()
	case stopped: // the worker knows why
		return errors.New(strings.TrimSpace("the program was stopped\n\n" + text))
	case code == 0 && err == nil:
		if out.total > out.most && !p.noResult {
			p.log.Warn("stdout is longer than a result may be; the first part is kept", "job", keyOf(job), "bytes", out.total)
		}
		if !p.noResult {
			job.Result = result(out)
		}
		return nil
	}
	failure := errors.New(failureText(code, err, text))
	switch {
	case code == programDead:
		return dibs.Die(failure)
	case code == programSnooze && delay == nil:
		return dibs.Snooze(p.snooze)
	case code == programSnooze:
		return dibs.Snooze(*delay)
	case delay != nil:
		return dibs.RetryAfter(*delay, failure)
	}
	return dibs.Retry(failure) // whatever has come to the job since the program ended
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// failureText is the exit code and the last line of stderr, which often says it
// all, and then the end of stderr if it has more.
func failureText(code int, err error, stderr string) string {
	what := fmt.Sprintf("exit code %d", code)
	if code < 0 { // a signal
		what = err.Error()
	}
	if stderr == "" {
		return what
	}
	i := strings.LastIndexByte(stderr, '\n')
	if i < 0 {
		return what + ": " + stderr
	}
	return what + ": " + stderr[i+1:] + "\n\n" + stderr
}

// splitDelay takes the last line off stderr if it chooses a delay.
func splitDelay(stderr string) (text string, delay *time.Duration) {
	text = strings.TrimSpace(stderr)
	i := strings.LastIndexByte(text, '\n') + 1
	value, found := strings.CutPrefix(text[i:], delayLine)
	if !found {
		return text, nil
	}
	d, err := parseDuration(strings.TrimSpace(value))
	if err != nil || d < 0 || d > dibs.MaxDelay {
		return text, nil // shown as any other error
	}
	return strings.TrimSpace(text[:i]), &d
}

// result makes JSON of what the program wrote.
func result(out *head) json.RawMessage {
	raw := bytes.TrimSpace(out.kept)
	if len(raw) == 0 {
		return nil
	}
	if out.total <= out.most && utf8.Valid(raw) && json.Valid(raw) {
		return raw
	}
	text, end := strings.ToValidUTF8(string(raw), "\uFFFD"), ""
	if out.total > out.most {
		end = cutMark
	}
	for {
		encoded := encode(text + end)
		if len(encoded) <= dibs.MaxResult {
			return encoded
		}
		// Escapes take more room than the characters that they stand for.
		keep := len(text) * (dibs.MaxResult - len(cutMark) - 2) / len(encoded)
		text, end = strings.ToValidUTF8(text[:keep], ""), cutMark
	}
}

const cutMark = "… (cut)"

// head keeps the first bytes that are written to it.
type head struct {
	most  int
	kept  []byte
	total int
}

func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), h.most-len(h.kept))]...)
	h.total += len(p)
	return len(p), nil
}

// tail keeps the last bytes that are written to it.
type tail struct {
	most int
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 4*t.most {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.most:]...)
		t.cut = true
	}
	return len(p), nil
}

// String is the end of what was written: whole lines if it had to be cut.
func (t *tail) String() string {
	// The exit code and the last line again come before it.
	most := t.most / 2
	if len(t.kept) <= most && !t.cut {
		return string(t.kept)
	}
	end := t.kept[max(0, len(t.kept)-most):]
	if i := bytes.IndexByte(end, '\n'); i >= 0 && i < len(end)-1 {
		end = end[i+1:]
	}
	return "…\n" + string(end)
}
