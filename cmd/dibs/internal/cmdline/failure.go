package cmdline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

// Exit codes; NewExitCodesTopic documents them.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitLeaseLost   = 3
	ExitUnavailable = 4
	ExitNotFound    = 5
	ExitSchema      = 6
	ExitPartial     = 7
	ExitBroken      = 8

	ExitNotCompleted = 9
	ExitTimeout      = 10
	ExitInterrupted  = 130
)

func NewExitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes of dibs mean",
		Long: `Exit codes of dibs

    0  all was done
    1  it failed for another reason than those below, or 'dibs doctor',
       'dibs check' or 'dibs adopt check' found something
    2  wrong usage or invalid input, or what an adopted table cannot do; nothing was done
    3  a lease was lost: 'finish' or 'extend' was refused for some jobs, which were
       not changed (the others were)
    4  the database is unavailable: not reachable, wrong password, read-only, disk full
    5  no such job, queue or schedule
    6  the database has no dibs schema, or one of another version: see 'dibs migrate'
    7  done in part: 'enqueue --partial' skipped broken lines, or ids from stdin were
       changed before one that cannot be read
    8  'dibs torture' found a broken promise
    9  'dibs wait' or 'enqueue --wait': a job that was waited for is dead or cancelled
   10  'dibs wait --timeout': the time was over before all jobs had ended
  130  interrupted

Messages go to stderr: one line that begins with "dibs:", and what to do next.
The exit codes of the programs that 'dibs work' runs are in 'dibs work --help'.`,
	}
}

// HintError is an error with advice. Its text is that of err.
type HintError struct {
	Err  error
	Next string
}

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

// UsageError is a mistake in the arguments.
type UsageError struct {
	Err     error
	Command string // for example "dibs enqueue"
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef makes an error for a mistake in the arguments that only the verb itself detects.
func Usagef(cmd *cobra.Command, format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...), Command: cmd.CommandPath()}
}

// CodeError ends the command with an exit code of its own. If err is nil, the report has
// been written already.
type CodeError struct {
	Code int
	Err  error
}

func (e *CodeError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}
func (e *CodeError) Unwrap() error { return e.Err }

// Fail reports err on stderr and returns the exit code for it.
func (a *App) Fail(ctx context.Context, err error) int {
	err = open.Explain(a.URL(), err)
	code := ExitCode(ctx, err)
	text := strings.TrimSuffix(strings.TrimSpace(open.Redacted(err.Error())), ": "+errors.ErrUnsupported.Error()) // the text before it is clearer
	if text == "" {
		return code
	}
	if code == ExitInterrupted && !errors.Is(err, ErrSecondSignal) {
		text = "interrupted"
	}
	text = strings.ReplaceAll(text, "\n", "\n      ") // only the first line may begin with dibs:
	fmt.Fprintf(a.Stderr, "dibs: %s\n", strings.TrimPrefix(text, "dibs: "))
	if next := a.whatNext(err); next != "" && code != ExitInterrupted {
		fmt.Fprintf(a.Stderr, "      %s\n", open.Redacted(next))
	}
	return code
}

func ExitCode(ctx context.Context, err error) int {
	var own *CodeError
	var usage *UsageError
	switch {
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return ExitInterrupted
	case errors.Is(err, dibs.ErrUnavailable):
		return ExitUnavailable
	case errors.Is(err, dibs.ErrLeaseLost):
		return ExitLeaseLost
	case errors.Is(err, dibs.ErrNotFound), errors.Is(err, dibs.ErrUnknownQueue), errors.Is(err, dibs.ErrUnknownSchedule):
		return ExitNotFound
	case errors.Is(err, dibs.ErrSchema):
		return ExitSchema
	case errors.Is(err, dibs.ErrInvalid), errors.Is(err, errors.ErrUnsupported):
		return ExitUsage
	}
	return ExitFailure
}

func (a *App) whatNext(err error) string {
	var hint *HintError
	var database *open.Error
	var usage *UsageError
	switch {
	case errors.As(err, &hint):
		return hint.Next
	case errors.As(err, &database):
		return database.Next
	case errors.As(err, &usage):
		return fmt.Sprintf("see '%s --help'", usage.Command)
	case errors.Is(err, dibs.ErrUnavailable):
		return "it may pass: try again; it is not known whether this call took effect"
	case errors.Is(err, dibs.ErrLeaseLost) && a.Adopted != nil:
		return "drop this attempt; or was it another row? give " + a.rowID() + ", not the number of a log"
	case errors.Is(err, dibs.ErrNotFound) && a.Adopted != nil:
		return "give " + a.rowID() + ", as 'dibs ls --table " + words.ShellWord(a.Table) + "' shows it, not the number of a log"
	case errors.Is(err, dibs.ErrLeaseLost):
		return "the job runs elsewhere or has ended: drop this attempt; longer leases or 'dibs extend' avoid it"
	case errors.Is(err, dibs.ErrNotFound):
		return "see which there are with 'dibs ls' and 'dibs ls --state completed'"
	case errors.Is(err, errors.ErrUnsupported):
		return "docs/adopt.md tells what each way to adopt a table can do"
	}
	return ""
}

// UnprintedJobs is the error for claimed jobs that could not be written.
type UnprintedJobs struct{ Err error }

func (e *UnprintedJobs) Error() string { return e.Err.Error() }
