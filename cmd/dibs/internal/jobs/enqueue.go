package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

// enqueueFlags holds the flags of 'dibs enqueue'.
type enqueueFlags struct {
	job      dibs.NewJob // fields that the flags set in every job
	priority int
	delay    cmdline.DurationFlag
	runAt    cmdline.TimeFlag
	period   cmdline.DurationFlag
	limit    cmdline.DurationFlag
	metadata string

	file                    string
	lines, jsonl, jobs, csv bool
	partial                 bool
	wait                    bool
}

const enqueueHelp = `Add one job with the given payload, which is JSON ("-" reads it from stdin, none is
null), to a queue. Or add many, from --file or stdin:

  --lines   each line is the payload of one job, as a JSON string
  --jsonl   each line is JSON: the payload of one job
  --jobs    each line is a JSON object with the fields of one job: queue, kind,
            payload, metadata, priority, delay, run_at, max_attempts, group,
            unique_key, unique_until, unique_for, unique_window, if_held, delay_limit,
            ref, after
  --csv     the first row names the columns; each other row is one job. Its payload is
            a JSON object of strings, from all columns but these, which set a field:
            @queue @kind @priority @delay @run_at @group @unique_key @unique_until
            @unique_for @unique_window @if_held @delay_limit @max_attempts @metadata.
            Where they are empty, flags and defaults count.

Blank lines are skipped. Flags and QUEUE hold for every job that does not say otherwise. With
--jobs and --csv, QUEUE may be left out; jobs that name none then go to the queue "default". The
kind of a job, unless given, is the name of its queue.

Without a payload and without a format, anything on stdin is an error. A pipe is waited
for until something comes, or its end: where a stdin that nobody writes to stays open,
as some programs leave it, give null as the payload, or </dev/null. A terminal is not
read.

All jobs are enqueued, in one transaction, or none: if a line is broken, the error
names it. With --partial, good lines are enqueued as they come, broken ones are
reported on stderr, and the exit code is 7 if there were any.

A unique key is held until its job is finished, or claimed (--unique-until), and for a
period at least, whatever becomes of the job: --unique-for 1h, or --unique-window "day in
Europe/Berlin" (hour, day, week or month; without a zone in UTC). If another job holds the
key, nothing is enqueued; --if-held says whether that job, if it still waits, becomes the
new one (replace), or starts later, as --delay or --run-at say (push).

A job that comes after others is blocked until all of these are completed (--after), have
ended in whatever way (--after-end), or are dead or cancelled (--after-failed). Where that
cannot come about any more, the job is cancelled, and 'dibs show' says because of which other.
With --jobs, lines can come after earlier ones of the file, which they name by a ref of their
choice: "ref":"page" in these, and "after":["page"], or {"ref":"page","on":"ended"}, in those;
17 or {"id":17,"on":"failed"} is the job with that id. If no earlier line has the ref that a
line names, that line waits for nothing by it.

With --json, each job gives one line with its id; "existing" is true where another job
already held the unique key, whose id that is, and "replaced" or "pushed" where it was.

With --wait, dibs waits until the one job has ended, and ends as 'dibs wait' does.`

func newEnqueueCmd(a *app) *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "enqueue QUEUE [PAYLOAD] [flags]",
		Short: "Add one job, or many from a file",
		Long:  enqueueHelp,
		Example: `  dibs enqueue emails '{"to":"ann@example.com"}' --kind welcome --delay 10m
  dibs enqueue reports --unique daily --unique-until claimed
  dibs enqueue index --unique doc-7 --if-held push --delay 10s --delay-limit 2m
  find . -name '*.jpg' | dibs enqueue thumbnails --lines
  dibs enqueue emails --file customers.csv --priority 500
  dibs enqueue bind --after 17,18
  dibs enqueue --jobs --file book.jsonl`,
		Args: cmdline.AtMost(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			form, err := f.read(cmd, args)
			if err == nil && form == "" && len(args) < 2 {
				err = a.refuseInput(cmd)
			}
			if err != nil {
				return err
			}
			if form == "" {
				return a.enqueueOne(cmd.Context(), f.job, args, f.wait)
			}
			b := bulk{app: a, base: f.job, form: form, path: f.file, refs: newRefs()}
			if f.partial {
				return b.partial(cmd.Context())
			}
			return b.all(cmd.Context())
		},
		ValidArgsFunction: a.CompleteQueue,
	}
	f.add(cmd)
	return cmd
}

func (f *enqueueFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVarP(&f.job.Kind, "kind", "k", "", "`KIND` of job, which selects its handler; default: the queue's name")
	fs.IntVarP(&f.priority, "priority", "p", dibs.DefaultPriority, "`0-32767`, small first")
	fs.Var(&f.delay, "delay", "earliest start, counted from now, on the database's clock")
	fs.Var(&f.runAt, "run-at", "`TIME` of the earliest start")
	fs.StringVarP(&f.job.Group, "group", "g", "", "jobs of one `GROUP` run one at a time, in order")
	fs.StringVarP(&f.job.UniqueKey, "unique", "u", "", "add the job only if none of the queue holds this `KEY`")
	fs.StringVar((*string)(&f.job.UniqueUntil), "unique-until", "", "`WHEN` the job gives its key back: finished (default) or claimed")
	fs.Var(&f.period, "unique-for", "hold the key this long at least, from now on")
	fs.StringVar(&f.job.UniqueWindow, "unique-window", "", "hold the key at least until this `WINDOW` ends: hour, day, week, month")
	fs.StringVar((*string)(&f.job.IfHeld), "if-held", "", "`WHAT` becomes of a waiting holder: keep (default), replace, push")
	fs.Var(&f.limit, "delay-limit", "a holder starts this long after it was enqueued at the latest")
	fs.Var(afterFlag{&f.job.After, dibs.NeedCompleted}, "after", "start once the jobs with these ids are completed")
	fs.Var(afterFlag{&f.job.After, dibs.NeedEnded}, "after-end", "start once the jobs with these ids have ended, in whatever way")
	fs.Var(afterFlag{&f.job.After, dibs.NeedFailed}, "after-failed", "start once the jobs with these ids are dead or cancelled")
	fs.IntVar(&f.job.MaxAttempts, "max-attempts", 0, "number of attempts after which the job is dead; 0: the queue's")
	fs.StringVar(&f.metadata, "metadata", "", "a small `JSON` object, for tags or trace context")
	fs.BoolVar(&f.lines, "lines", false, "add one job for each line of text")
	fs.BoolVar(&f.jsonl, "jsonl", false, "add one job for each line of JSON")
	fs.BoolVar(&f.jobs, "jobs", false, "add the job that each line describes in JSON")
	fs.BoolVar(&f.csv, "csv", false, "add one job for each row of CSV")
	fs.StringVarP(&f.file, "file", "f", "", "read the jobs from `FILE`; .csv, .jsonl and .ndjson tell the format")
	fs.BoolVar(&f.partial, "partial", false, "enqueue the good lines though others are broken")
	fs.BoolVar(&f.wait, "wait", false, "wait until the job has ended")
	cmd.MarkFlagsMutuallyExclusive("lines", "jsonl", "jobs", "csv")
	cmd.MarkFlagsMutuallyExclusive("delay", "run-at")
}

// read completes the job that the flags describe, and returns the format of the
// input: none for one job from the arguments.
func (f *enqueueFlags) read(cmd *cobra.Command, args []string) (format, error) {
	if len(args) > 0 {
		f.job.Queue = args[0]
		if f.job.Queue == "" {
			return "", &dibs.InvalidError{Field: "queue", Reason: "is missing"}
		}
	}
	if cmd.Flags().Changed("priority") {
		f.job.Priority = &f.priority
	}
	if f.metadata != "" {
		f.job.Metadata = json.RawMessage(f.metadata)
	}
	f.job.Delay, f.job.RunAt = time.Duration(f.delay), time.Time(f.runAt)
	f.job.UniqueFor, f.job.DelayLimit = time.Duration(f.period), time.Duration(f.limit)
	form := f.form()
	switch {
	case len(args) == 0 && form != formatJobs && form != formatCSV && (form != "" || f.file == ""):
		return "", cmdline.Usagef(cmd, `which queue? write for example: %s emails '{"to":"ann"}'`, cmd.CommandPath())
	case form == "" && f.file != "":
		return "", cmdline.Usagef(cmd, "which format has %s? give --lines, --jsonl, --jobs or --csv", f.file)
	case form != "" && f.file == "" && len(args) == 1 && formatOf(args[0]) != "" && isFile(args[0]):
		return "", cmdline.Usagef(cmd, "%s is a file, and would be the queue: name the file with --file, and the queue before it", args[0])
	case form == "" && f.partial:
		return "", cmdline.Usagef(cmd, "--partial is for many jobs: give --lines, --jsonl, --jobs or --csv")
	case form != "" && f.wait:
		return "", cmdline.Usagef(cmd, "--wait is for one job; 'dibs wait' takes many ids")
	case form != "" && len(args) == 2:
		return "", cmdline.Usagef(cmd, "give either a payload or --%s, not both", form)
	case form != "" && f.job.UniqueKey != "":
		return "", cmdline.Usagef(cmd, "--unique is for one job; many have theirs in @unique_key (--csv) or unique_key (--jobs)")
	}
	return form, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (f *enqueueFlags) form() format {
	switch {
	case f.lines:
		return formatLines
	case f.jsonl:
		return formatJSONL
	case f.jobs:
		return formatJobs
	case f.csv:
		return formatCSV
	}
	return formatOf(f.file)
}

// complete sets the command's own defaults.
func complete(job dibs.NewJob) dibs.NewJob {
	if job.Queue == "" {
		job.Queue = dibs.DefaultQueue
	}
	if job.Kind == "" {
		job.Kind = job.Queue
	}
	return job
}

func (a *app) enqueueOne(ctx context.Context, job dibs.NewJob, args []string, wait bool) error {
	if len(args) == 2 {
		payload := []byte(args[1])
		if args[1] == "-" {
			var err error
			if payload, err = readPayload(cmdline.Interruptible(ctx, a.Stdin)); err != nil {
				return err
			}
		}
		job.Payload = json.RawMessage(payload)
	}
	job = complete(job)
	// The store checks the queue's own limit of payloads.
	if err := validate(job, map[string]int{job.Queue: dibs.MaxPayloadLimit}); err != nil {
		return err
	}
	return a.WithDatabase(ctx, func(db admin.Database) error {
		got, err := db.Enqueue(ctx, []dibs.NewJob{job})
		if _, rule, ok := wire.InvalidJob(err); ok {
			return rule
		}
		if err != nil {
			return err
		}
		switch e := got[0]; {
		case a.JSON:
			a.Tell(e)
		case e.Replaced:
			a.Say("job %d held that unique key: it was replaced", e.ID)
		case e.Pushed:
			a.Say("job %d holds that unique key already: it was delayed", e.ID)
		case e.Existing:
			a.Say("job %d holds that unique key already: nothing was enqueued", e.ID)
		default:
			a.Say("enqueued job %d in %s", e.ID, words.Printable(job.Queue))
		}
		if wait {
			return a.waitFor(ctx, db, []string{strconv.FormatInt(got[0].ID, 10)}, 0)
		}
		return nil
	})
}

func readPayload(r io.Reader) ([]byte, error) {
	payload, err := io.ReadAll(io.LimitReader(r, cmdline.MaxRecord+1))
	if err != nil {
		return nil, fmt.Errorf("read the payload: %w", err)
	}
	if len(payload) > cmdline.MaxRecord {
		return nil, &dibs.InvalidError{Field: "payload", Reason: cmdline.ErrTooLong.Error()}
	}
	return payload, nil
}
