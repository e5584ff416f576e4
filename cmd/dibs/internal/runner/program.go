// Package runner runs programs for jobs: one for each, or some that stay and read jobs line by line.
package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/nesting"
	"github.com/dibs-queue/dibs/internal/wire"
)

// The exit codes of programs with a meaning; see 'dibs work --help'.
const (
	programDead     = 100
	programSnooze   = 101
	programFinished = 102
)

const (
	// maxGrace limits the grace at shutdown: the worker waits 3 s for handlers that it stops.
	maxGrace = 2 * time.Second
	// leftoverWait is how long processes that outlive the program, such as the tee of a
	// pipeline, may go on writing.
	leftoverWait = time.Second
	// delayLine begins the last line of stderr that chooses a delay.
	delayLine = "dibs: delay "
)

// Options say what is run for jobs, and how.
type Options struct {
	Argv     []string        // the program and its arguments
	Env      []string        // its environment, but for what depends on the job
	Grace    time.Duration   // from SIGTERM to SIGKILL
	Snooze   time.Duration   // delay of a job that is snoozed without one
	Text     bool            // payloads that are JSON strings are given as plain text
	NoResult bool            // results are not kept
	StopAll  <-chan struct{} // when closed, all processes stop at once
	Log      *slog.Logger    // nil: nothing is logged
	Rows     bool            // the jobs are rows of an adopted table
	NoToken  bool            // the tokens of leases change, so programs are not told them
}

// Program runs one child process for each job.
type Program struct {
	Options
	spawner *Spawner
}

func NewProgram(o Options) *Program {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Program{o, NewSpawner()}
}

// Close releases the spawner; no program may be running.
func (p *Program) Close() { p.spawner.Close() }

// Handle is the handler of every job.
func (p *Program) Handle(ctx context.Context, job *dibs.RawJob) error {
	out, errs := &head{limit: dibs.MaxResult}, &tail{limit: dibs.MaxErrorText}
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Env = append(p.Env[:len(p.Env):len(p.Env)], p.jobEnv(job)...)
	streams, err := openStreams()
	if err == nil {
		err = streams.start(cmd, p.spawner.Start, out, errs)
	}
	if err != nil {
		return notStarted(err)
	}
	go streams.feed(p.input(job))
	stopped, err := p.wait(ctx, cmd, job)
	if !stopped {
		streams.drain(leftoverWait, ctx.Done())
	}
	killGroup(cmd.Process.Pid)
	streams.end()
	return p.outcome(job, cmd.ProcessState.ExitCode(), err, stopped, out, errs)
}

// notStarted returns the outcome of a job whose program could not be started. It is the job's
// fault only if its values do not fit into the environment: the error then has no Errno, or
// says that the list is too long.
func notStarted(err error) error {
	if !errors.As(err, new(syscall.Errno)) || errors.Is(err, syscall.E2BIG) {
		return fmt.Errorf("the program did not start: %w", err)
	}
	return fmt.Errorf("%w: %w", dibs.ErrNotStarted, err)
}

// input returns the program's stdin.
func (p *Program) input(job *dibs.RawJob) []byte {
	var text string
	if p.Text && bytes.HasPrefix(bytes.TrimSpace(job.Payload), []byte{'"'}) && json.Unmarshal(job.Payload, &text) == nil {
		return []byte(text)
	}
	return job.Payload
}

func (p *Program) jobEnv(job *dibs.RawJob) []string {
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
	if job.Schedule != "" {
		env = append(env, "DIBS_SCHEDULE="+job.Schedule)
	}
	if !job.Tick.IsZero() {
		env = append(env, "DIBS_TICK="+job.Tick.Format(time.RFC3339Nano))
	}
	if p.Rows {
		env = append(env, "DIBS_JOB_KEY="+term.KeyOf(job))
	}
	if !p.NoToken {
		env = append(env, "DIBS_TOKEN="+job.Token.String())
	}
	return env
}

// wait waits for the program's end, and stops the program when ctx ends. stopped reports
// whether it did.
func (p *Program) wait(ctx context.Context, cmd *exec.Cmd, job *dibs.RawJob) (stopped bool, err error) {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
		return false, err
	case <-p.StopAll:
	case <-ctx.Done():
	}
	if hasEnded(cmd.Process) { // the program has ended at the same moment, before it was told to stop
		return false, <-ended
	}
	if !isClosed(p.StopAll) {
		terminateGroup(cmd.Process.Pid)
		grace := time.NewTimer(p.graceFor(context.Cause(ctx), job))
		defer grace.Stop()
		select {
		case err = <-ended:
			return true, err
		case <-p.StopAll:
		case <-grace.C:
		}
	}
	killGroup(cmd.Process.Pid)
	return true, <-ended
}

// graceFor returns how long the program may take to stop. After the loss of its lease that
// is half of the time that the worker leaves before another worker may run the job.
func (p *Program) graceFor(cause error, job *dibs.RawJob) time.Duration {
	switch {
	case errors.Is(cause, dibs.ErrLeaseLost):
		return min(p.Grace, job.LeaseUntil.Sub(job.ClaimedAt)/20)
	case errors.Is(cause, dibs.ErrShutdown):
		return min(p.Grace, maxGrace)
	}
	return p.Grace
}

// outcome turns the end of the program into the error that the worker turns into an outcome.
func (p *Program) outcome(job *dibs.RawJob, code int, err error, stopped bool, out *head, errs *tail) error {
	text, delay := splitDelay(errs.String())
	switch {
	case code == programFinished:
		return dibs.ErrFinished
	case stopped && isClosed(p.StopAll):
		return dibs.Release()
	case stopped: // the worker knows the reason
		return errors.New(strings.TrimSpace("the program was stopped\n\n" + text))
	case code == 0 && err == nil:
		if out.total > out.limit && !p.NoResult {
			p.Log.Warn("stdout is longer than a result may be; the first part is kept", "job", term.KeyOf(job), "bytes", out.total)
		}
		if !p.NoResult {
			job.Result = result(out)
		}
		return nil
	}
	failure := errors.New(failureText(code, err, text))
	switch {
	case code == programDead:
		return dibs.Die(failure)
	case code == programSnooze && delay == nil:
		return dibs.Snooze(p.Snooze)
	case code == programSnooze:
		return dibs.Snooze(*delay)
	case delay != nil:
		return dibs.RetryAfter(*delay, failure)
	}
	return dibs.Retry(failure) // even if ctx has ended since the program did
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// failureText returns the exit code and the line of stderr that tells most, which is often enough,
// and then the end of stderr if it has more.
func failureText(code int, err error, stderr string) string {
	what := fmt.Sprintf("exit code %d", code)
	if code < 0 { // a signal ended it
		what = err.Error()
	}
	if stderr == "" {
		return what
	}
	if !strings.Contains(stderr, "\n") {
		return what + ": " + stderr
	}
	return what + ": " + tellingLine(stderr) + "\n\n" + stderr
}

// tellingLine is the last line of stderr, but for what Node, Ruby, Java and PHP write after an error.
func tellingLine(stderr string) string {
	lines := strings.Split(stderr, "\n")
	for _, line := range slices.Backward(lines) {
		if !afterError.MatchString(line) {
			return strings.TrimRight(line, "\r")
		}
	}
	return lines[len(lines)-1]
}

// afterError matches indented lines, as those of a stack are, and others without news.
var afterError = regexp.MustCompile(`^(\s|$|[}\])]+\r?$|Node\.js v\d|\(Use .node |#\d+ |Stack trace:|\^)`)

// splitDelay removes the last line of stderr if it chooses a delay.
func splitDelay(stderr string) (text string, delay *time.Duration) {
	text = strings.TrimSpace(stderr)
	i := strings.LastIndexByte(text, '\n') + 1
	value, found := strings.CutPrefix(text[i:], delayLine)
	if !found {
		return text, nil
	}
	d, err := wire.ParseDuration(strings.TrimSpace(value))
	if err != nil || d < 0 || d > dibs.MaxDelay {
		return text, nil // the line is then part of the error
	}
	return strings.TrimSpace(text[:i]), &d
}

// result turns the program's stdout into JSON.
func result(out *head) json.RawMessage {
	raw := bytes.TrimSpace(out.kept)
	if len(raw) == 0 {
		return nil
	}
	if out.total <= out.limit && utf8.Valid(raw) && !nesting.Over(raw, dibs.MaxDepth) && json.Valid(raw) {
		return raw
	}
	text, end := strings.ToValidUTF8(string(raw), "\uFFFD"), ""
	if out.total > out.limit {
		end = cutMark
	}
	for {
		encoded := wire.Encode(text + end)
		if len(encoded) <= dibs.MaxResult {
			return encoded
		}
		// Escapes are longer than their characters.
		keep := len(text) * (dibs.MaxResult - len(cutMark) - 2) / len(encoded)
		text, end = strings.ToValidUTF8(text[:keep], ""), cutMark
	}
}

const cutMark = "… (cut)"

// head keeps the first bytes written to it.
type head struct {
	limit int
	kept  []byte
	total int
}

func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), h.limit-len(h.kept))]...)
	h.total += len(p)
	return len(p), nil
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	kept  []byte
	cut   bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 4*t.limit {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.limit:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns the kept end, which begins with a whole line if it was cut.
func (t *tail) String() string {
	// failureText puts the exit code and the last line before it.
	most := t.limit / 2
	if len(t.kept) <= most && !t.cut {
		return string(t.kept)
	}
	end := t.kept[max(0, len(t.kept)-most):]
	if i := bytes.IndexByte(end, '\n'); i >= 0 && i < len(end)-1 {
		end = end[i+1:]
	}
	return "…\n" + string(end)
}
