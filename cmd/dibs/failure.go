package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
)

// Exit codes; newExitCodesTopic documents them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitLeaseLost   = 3
	exitUnavailable = 4
	exitNotFound    = 5
	exitSchema      = 6
	exitPartial     = 7
	exitBroken      = 8

	exitNotCompleted = 9
	exitTimeout      = 10
	exitInterrupted  = 130
)

func newExitCodesTopic() *cobra.Command {
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

// hintError is an error with advice. Its text is that of err.
type hintError struct {
	err  error
	next string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// usageError is a mistake in the arguments.
type usageError struct {
	err     error
	command string // for example "dibs enqueue"
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef makes an error for a mistake in the arguments that only the verb itself detects.
func usagef(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), command: cmd.CommandPath()}
}

// codeError ends the command with an exit code of its own. If err is nil, the report has
// been written already.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *codeError) Unwrap() error { return e.err }

// fail reports err on stderr and returns the exit code for it.
func (a *app) fail(ctx context.Context, err error) int {
	err = open.Explain(a.dbURL(), err)
	code := exitCode(ctx, err)
	text := strings.TrimSuffix(strings.TrimSpace(open.Redacted(err.Error())), ": "+errors.ErrUnsupported.Error()) // the text before it is clearer
	if text == "" {
		return code
	}
	if code == exitInterrupted && !errors.Is(err, errSecondSignal) {
		text = "interrupted"
	}
	text = strings.ReplaceAll(text, "\n", "\n      ") // only the first line may begin with dibs:
	fmt.Fprintf(a.stderr, "dibs: %s\n", strings.TrimPrefix(text, "dibs: "))
	if next := a.whatNext(err); next != "" && code != exitInterrupted {
		fmt.Fprintf(a.stderr, "      %s\n", open.Redacted(next))
	}
	return code
}

func exitCode(ctx context.Context, err error) int {
	var own *codeError
	var usage *usageError
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, dibs.ErrUnavailable):
		return exitUnavailable
	case errors.Is(err, dibs.ErrLeaseLost):
		return exitLeaseLost
	case errors.Is(err, dibs.ErrNotFound), errors.Is(err, dibs.ErrUnknownQueue), errors.Is(err, dibs.ErrUnknownSchedule):
		return exitNotFound
	case errors.Is(err, dibs.ErrSchema):
		return exitSchema
	case errors.Is(err, dibs.ErrInvalid), errors.Is(err, errors.ErrUnsupported):
		return exitUsage
	}
	return exitFailure
}

func (a *app) whatNext(err error) string {
	var hint *hintError
	var database *open.Error
	var usage *usageError
	switch {
	case errors.As(err, &hint):
		return hint.next
	case errors.As(err, &database):
		return database.Next
	case errors.As(err, &usage):
		return fmt.Sprintf("see '%s --help'", usage.command)
	case errors.Is(err, dibs.ErrUnavailable):
		return "it may pass: try again; it is not known whether this call took effect"
	case errors.Is(err, dibs.ErrLeaseLost) && a.adopted != nil:
		return "drop this attempt; or was it another row? give " + a.rowID() + ", not the number of a log"
	case errors.Is(err, dibs.ErrNotFound) && a.adopted != nil:
		return "give " + a.rowID() + ", as 'dibs ls --table " + shellWord(a.table) + "' shows it, not the number of a log"
	case errors.Is(err, dibs.ErrLeaseLost):
		return "the job runs elsewhere or has ended: drop this attempt; longer leases or 'dibs extend' avoid it"
	case errors.Is(err, dibs.ErrNotFound):
		return "see which there are with 'dibs ls' and 'dibs ls --state completed'"
	case errors.Is(err, errors.ErrUnsupported):
		return "docs/adopt.md tells what each way to adopt a table can do"
	}
	return ""
}
