package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/spf13/cobra"
)

// endings are the flags for how the job ended.
var endings = []struct {
	ending dibs.Ending
	usage  string
}{
	{dibs.EndCompleted, "it is done"},
	{dibs.EndRetry, "it failed: run it again after --delay or the queue's backoff"},
	{dibs.EndSnooze, "run it again after --delay; this attempt does not count"},
	{dibs.EndRelease, "it was not run: give it back, at once and uncounted"},
	{dibs.EndDead, "it failed for good"},
	{dibs.EndCancelled, "it was told to stop"},
}

func newFinishCmd(a *app) *cobra.Command {
	var delay cmdline.DurationFlag
	var reason, result string
	chosenEndings := make([]bool, len(endings))
	cmd := &cobra.Command{
		Use:   "finish [ID TOKEN] [flags]",
		Short: "Say how claimed jobs ended",
		Long: `Say how the job with that id and token ended, by one of the flags below; or how many
jobs ended, by lines of JSON on stdin, up to 10,000:

  {"id": 17, "token": "1f0c…", "ending": "completed", "result": {"sent": true}}
  {"id": 18, "token": "1f0c…", "ending": "retry", "error": "timed out", "delay": 90}

"ending" is completed, retry, snooze, release, dead or cancelled. With completed, "add"
is a list of jobs, as 'dibs enqueue --jobs' takes them, that are enqueued with it if and
only if it is written. Other fields of a job are passed over, so the lines of 'dibs claim'
will do with an ending added to them.

The result is one line of JSON: in "finished" how many were written, and in "refused"
the ids of jobs whose leases were lost: these were not changed, and the exit code is 3.

With --table, ID is the row's id, whatever its type (of several columns, a JSON array),
and so is "key" in the lines. Where it is no whole number from 1 on, "keys" in the result
tells which ids the numbers in "refused" stand for.`,
		Example: `  dibs finish $DIBS_JOB_ID $DIBS_TOKEN --completed --result '{"sent":true}'
  dibs finish $DIBS_JOB_ID $DIBS_TOKEN --retry --error "mail server down" --delay 5m
  dibs claim emails -n 100 | jq -c '. + {ending: "completed"}' | dibs finish`,
		Args: idAndToken,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			outcomes, names, err := a.outcomes(ctx, cmd, args, chosenEndings)
			if err != nil {
				return err
			}
			if len(args) == 2 {
				o := &outcomes[0]
				o.Error, o.Result = reason, json.RawMessage(result)
				if cmd.Flags().Changed("delay") {
					o.Delay = (*time.Duration)(&delay)
				}
			}
			if _, err := checks.Outcomes(outcomes); err != nil && a.Table == "" {
				return outcomeError(err, len(args) == 2)
			}
			return a.WithTable(ctx, func(db cmdline.JobTable) error {
				for i := range outcomes {
					if outcomes[i].ID, err = cmdline.IDOf(db, names[i]); err != nil {
						return err
					}
				}
				return outcomeError(a.finish(ctx, db, outcomes, names), len(args) == 2)
			})
		},
	}
	f := cmd.Flags()
	names := make([]string, len(endings))
	for i, e := range endings {
		names[i] = string(e.ending)
		f.BoolVar(&chosenEndings[i], names[i], false, e.usage)
	}
	f.StringVar(&reason, "error", "", "why it failed, for retry, dead and cancelled: `TEXT` for the error history")
	f.StringVar(&result, "result", "", "result of the job, for completed: any `JSON`")
	f.Var(&delay, "delay", "when to run it again, for retry and snooze")
	cmd.MarkFlagsMutuallyExclusive(names...)
	return cmd
}

func idAndToken(_ *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) == 2 {
		return nil
	}
	return errors.New("give the id and the token of one job, or lines of JSON on stdin")
}

// parseLease reads the arguments. With --table, the number of the row is not known yet.
func (a *app) parseLease(args []string) (l dibs.Lease, err error) {
	if a.Table == "" {
		if l.ID, err = cmdline.ParseID(args[0]); err != nil {
			return l, err
		}
	}
	if err := l.Token.UnmarshalText([]byte(args[1])); err != nil || l.Token.IsZero() {
		return l, &dibs.InvalidError{Field: "token", Reason: fmt.Sprintf("must be the 32 hexadecimal digits that the claim gave, got %.40q", args[1])}
	}
	return l, nil
}

// outcomes reads the outcomes, and the names of their jobs.
func (a *app) outcomes(ctx context.Context, cmd *cobra.Command, args []string, chosenEndings []bool) (outcomes []dibs.Outcome, names []string, err error) {
	var ending dibs.Ending
	for i, e := range endings {
		if chosenEndings[i] {
			ending = e.ending
		}
	}
	if len(args) == 2 {
		if ending == "" {
			return nil, nil, cmdline.Usagef(cmd, "how did it end? give --completed, --retry, --snooze, --release, --dead or --cancelled")
		}
		l, err := a.parseLease(args)
		return []dibs.Outcome{{ID: l.ID, Token: l.Token, Ending: ending}}, args[:1], err
	}
	if ending != "" {
		return nil, nil, cmdline.Usagef(cmd, "--%s is for one job, named by id and token; lines on stdin say it in \"ending\"", ending)
	}
	err = a.eachLine(ctx, func(in *outcomeJSON) error {
		names = append(names, in.name())
		o, err := in.Outcome.Outcome()
		outcomes = append(outcomes, o)
		return err
	})
	return outcomes, names, err
}

// outcomeJSON is a line of input: an outcome, perhaps with the other fields of a job.
type outcomeJSON struct {
	wire.Outcome
	job
}

// job has the fields of a job that those of an outcome do not hide.
type job struct{ dibs.RawJob }

// name is the job's id, or the row's.
func (o *outcomeJSON) name() string {
	if o.Key != "" {
		return o.Key
	}
	return strconv.FormatInt(o.ID, 10)
}

// eachLine calls f with every line of stdin, which it reads to the end first.
func (a *app) eachLine(ctx context.Context, f func(*outcomeJSON) error) error {
	in := cmdline.NewInput(cmdline.Interruptible(ctx, a.Stdin))
	for line := 1; ; line++ {
		text, err := cmdline.ReadLine(in.Reader)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return &cmdline.CodeError{Code: cmdline.ExitUsage, Err: fmt.Errorf("stdin:%d: %w", line, err)}
		case line > dibs.MaxBatch:
			return &dibs.InvalidError{Field: "stdin", Reason: fmt.Sprintf("has more than %d lines; split them", dibs.MaxBatch)}
		case len(bytes.TrimSpace(text)) == 0:
			continue
		}
		var o outcomeJSON
		if err := wire.ReadObject(text, &o); err != nil {
			return &dibs.InvalidError{Field: fmt.Sprintf("stdin:%d", line), Reason: "is not a JSON object with the id and the token of a job: " + wire.Reason(err)}
		}
		if o.Key != "" && a.Table == "" {
			return &dibs.InvalidError{Field: fmt.Sprintf("stdin:%d", line), Reason: "names a row of an adopted table by its key: give the mapping with --table"}
		}
		if err := f(&o); err != nil {
			return &dibs.InvalidError{Field: fmt.Sprintf("stdin:%d", line), Reason: "adds a job that cannot be read: " + wire.Reason(err)}
		}
	}
}

// outcomeError makes an error name the flags, or the line of stdin, instead of an index.
func outcomeError(err error, one bool) error {
	var rule *dibs.InvalidError
	var i int
	if !errors.As(err, &rule) {
		return err
	}
	if _, scanErr := fmt.Sscanf(rule.Field, "outcomes[%d].", &i); scanErr != nil {
		return err
	}
	_, field, _ := strings.Cut(rule.Field, "].")
	if !one {
		field = fmt.Sprintf("stdin, outcome %d: %s", i+1, field)
	}
	return &dibs.InvalidError{Field: field, Reason: rule.Reason}
}

func (a *app) finish(ctx context.Context, db cmdline.JobTable, outcomes []dibs.Outcome, names []string) error {
	err := db.Finish(ctx, outcomes)
	var lost *dibs.FinishError
	if err != nil && (!errors.As(err, &lost) || len(lost.Unwritten) > 0) {
		return err
	}
	sum := struct {
		Finished int             `json:"finished"`
		Refused  []int64         `json:"refused,omitempty"`
		Keys     cmdline.RowKeys `json:"keys,omitempty"`
	}{Finished: len(outcomes)}
	if lost != nil {
		sum.Refused = lost.Lost
		sum.Finished -= len(lost.Lost)
		sum.Keys = cmdline.RowKeys{}
		for i, o := range outcomes {
			sum.Keys.Add(o.ID, names[i], lost.Lost)
		}
		err = sum.Keys.Explain(lost)
	}
	a.Tell(sum)
	return err
}
