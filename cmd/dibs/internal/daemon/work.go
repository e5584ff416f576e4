package daemon

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/runner"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/spf13/cobra"
)

// workFlags holds the flags of 'dibs work'.
type workFlags struct {
	queues      queuesFlag // --queue, or the one that is named
	argv        []string
	kinds       []string
	name        string
	concurrency int
	lease       cmdline.DurationFlag
	timeout     cmdline.DurationFlag
	shutdown    cmdline.DurationFlag
	grace       cmdline.DurationFlag
	snooze      cmdline.DurationFlag
	listen      string
	tokens      string
	insecure    bool

	processes int
	maxJobs   int

	resume, untilEmpty, text, noResult, verbose bool

	lines, shared bool
}

const workHelp = `Run PROGRAM once for each job of a queue, up to --concurrency at a time, until SIGINT or
SIGTERM. Any number of processes on any number of machines may do so. Without a queue it
is the one called default.

--queue NAME[:WEIGHT][:max=N] names several queues, which share --concurrency. Without weights
their order is strict: while a queue has due jobs, those after it wait. With weights, a
queue of weight 3 starts three jobs where one of weight 1, the default, starts one; the share of
a queue without due jobs goes to the others. At most N jobs of a queue run at once here.

The program gets the payload on stdin, JSON as it was enqueued (with --text, strings as
plain text), and in its environment

  DIBS_JOB_ID DIBS_QUEUE DIBS_KIND DIBS_ATTEMPT DIBS_MAX_ATTEMPTS DIBS_GROUP DIBS_TOKEN
  DIBS_SCHEDULE DIBS_TICK           of a schedule's job: its name, and the planned time
  DIBS_DB DIBS_SCHEMA DIBS_PREFIX   so that it can call dibs itself
  DIBS_TABLE DIBS_JOB_KEY           with --table: the mapping, and the id of the row

Its exit code says how the attempt ended:

    0  completed; what it wrote to stdout is kept as the job's result: as it is if
       that is JSON, else as a JSON string (the first 1 MiB)
  100  failed for good: the job is dead
  101  snooze: run it again after --snooze; this attempt does not count
  102  the program has finished the job itself, with 'dibs finish'; with --table,
       'dibs finish $DIBS_JOB_KEY $DIBS_TOKEN'
  any other, or a signal:
       failed; run it again after the queue's backoff, or dead if it was the last
       attempt

A program that the system cannot start (gone, too many open files, no memory) gives its job
back, uncounted, and no more are claimed for a while: 0.1 s at first, then longer, up to 30 s.

The end of its stderr is kept as the error. If the last line there is "dibs: delay 90s"
(any duration), a retry or a snooze comes after that time instead.

While the program runs, its lease is extended. It is stopped - SIGTERM to its process
group, SIGKILL after --grace - when its lease is lost, its job is cancelled or it runs
longer than --timeout. A program that was told to stop has not completed its job,
whatever its exit code. What it leaves running in its process group is killed when it
ends. If dibs work itself is killed, so are the programs, on Linux, but not what they have
started; their jobs run elsewhere when their leases have ended.

With --until-empty, the exit code is 0 also if jobs are dead, or if nothing was ever put in
the queue.

With --lines, the programs stay: each gets its jobs one after the other, as lines of JSON on stdin,
and answers with a line of JSON on stdout:

  {"id":17,"token":"1f0c…","queue":"emails","kind":"welcome","attempt":1,…,"payload":{"to":"ann"}}
  {"id":17,"token":"1f0c…","ending":"completed","result":{"sent":true}}

The ending is completed, retry, snooze, release, dead or cancelled, with "error" and "delay" where
they fit; with completed, "add" is a list of jobs to enqueue with it. Before it may come
{"id":17,"token":"1f0c…","progress":{"done":3,"total":10,"text":"…"}}, and steps that later
attempts must not do again: {"id":17,"token":"1f0c…","step":"charge","value":{…}}. The jobs that it
comes after are asked for by {"id":17,"token":"1f0c…","before":{}}; the answer comes on stdin.
Other lines, and those of stderr, are passed on to stderr. --concurrency processes are started, or
with --shared one (or --processes), which gets --concurrency jobs at once and answers in any order.
One that ends or is stopped is replaced; a job that it has read and not answered has failed. At the
end their stdin is closed. docs/lines.md says the rest, examples/workers has workers in six
languages.

A PostgreSQL server that is starting, is full or does not answer yet is waited for, and the log says
so; with --until-empty, one that does not answer ends dibs work with exit code 4.

On SIGINT or SIGTERM, no more jobs are claimed, and running programs have --shutdown to
end before they are stopped and their jobs given back, uncounted, within 5 s. The exit code
is 0. A second signal kills the programs at once; the exit code is then 130. The same signal
again within half a second is taken for the first one.

--listen ADDRESS, such as :8080, serves two pages over HTTP for probes: /healthz is good
(status 200) while the process does its work, also while the database is unreachable, and /readyz
while the database answers too and no signal has come. Otherwise they have the status 503. A third
page, /metrics, is for Prometheus. As it names queues and kinds, it is served off the loopback
address only with --tokens, which 'dibs serve token' makes, to those who send one with the scope
read for all queues; or with --insecure to everybody.

With --table the jobs are rows of that table, and the queue need not be named. Where the
mapping has only started_at to hold leases, to extend one changes its token: DIBS_TOKEN is
left out then, and the program cannot finish its row itself.`

func newWorkCmd(a *app) *cobra.Command {
	f := workFlags{shutdown: cmdline.DurationFlag(15 * time.Second), grace: cmdline.DurationFlag(3 * time.Second), snooze: cmdline.DurationFlag(time.Minute)}
	cmd := &cobra.Command{
		Use:   "work [QUEUE] [flags] -- PROGRAM [ARGUMENT]...",
		Short: "Run a program for each job of a queue, or of several",
		Long:  workHelp,
		Example: `  dibs work emails --concurrency 8 -- ./send.sh
  find . -type f | dibs enqueue sums --lines
  dibs work sums --text --until-empty -- sh -c 'sha256sum "$(cat)"'
  dibs work --queue mail:3 --queue reports:1:max=2 -- ./run.sh
  dibs work emails --lines --concurrency 8 -- python3 worker.py`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0 || dash == len(args):
				return fmt.Errorf("which program is to be run? name it after --")
			case dash > 1:
				return fmt.Errorf("only one queue can be named; %q is too many: give --queue for each", args[1])
			case dash == 1 && len(f.queues) > 0:
				return fmt.Errorf("queue %q is named beside --queue: give --queue for each", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			f.argv = args[dash:]
			if dash == 1 {
				f.queues = queuesFlag{{Name: args[0]}}
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			h, err := a.serveHealth(cmd.Context(), &f)
			if err != nil {
				return cmdline.Usagef(cmd, "%w", err)
			}
			defer h.close()
			if f.name == "" && !f.resume {
				f.name = workerName()
			}
			if a.ApplicationName, a.Conns = "dibs worker "+f.name, workConns; f.listen != "" {
				a.Conns++ // for scrapes
			}
			wait := cmdline.Waiting{Log: a.Logger(f.verbose), NotListening: !f.untilEmpty}
			return cmdline.Connect(cmd.Context(), wait, a.openToWork, func(db cmdline.JobTable) error {
				if err := f.findQueues(cmd.Context(), a, db); err != nil {
					return err
				}
				return a.work(cmd.Context(), db, &f, h)
			})
		},
		ValidArgsFunction: a.CompleteQueue,
	}
	f.add(cmd)
	return cmd
}

// workerName returns a name that is unique to this process.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return fmt.Sprintf("%.200s-%d-%.8s", host, os.Getpid(), strings.ToLower(crand.Text()))
}

func (f *workFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.VarP(&f.queues, "queue", "q", "a queue, with its weight and max; may be given again")
	fs.IntVarP(&f.concurrency, "concurrency", "c", 10, "programs that run at once")
	fs.StringArrayVarP(&f.kinds, "kind", "k", nil, "only jobs of this `KIND`; may be given again")
	fs.StringVar(&f.name, "name", "", "name of this worker; default: host name, process id and a random part")
	fs.BoolVar(&f.resume, "resume", false, "take back the jobs that a killed worker of this --name still holds")
	fs.Var(&f.lease, "lease", "length of leases; default: the queue's")
	fs.Var(&f.timeout, "timeout", "how long a program may run; default: any time")
	fs.Var(&f.grace, "grace", "from SIGTERM to SIGKILL, where there is time for it")
	fs.Var(&f.shutdown, "shutdown", "how long to wait for running programs at the end")
	fs.Var(&f.snooze, "snooze", "delay after exit code 101")
	fs.BoolVar(&f.untilEmpty, "until-empty", false, "exit when no such job is waiting, blocked or running")
	fs.BoolVar(&f.text, "text", false, "give payloads that are JSON strings to the program as plain text")
	fs.BoolVar(&f.noResult, "no-result", false, "do not keep what programs write to stdout")
	fs.BoolVar(&f.lines, "lines", false, "start programs that stay, and give them jobs as lines of JSON")
	fs.BoolVar(&f.shared, "shared", false, "with --lines: a program gets several jobs at once")
	fs.IntVar(&f.processes, "processes", 1, "with --shared: programs that share the --concurrency jobs")
	fs.IntVar(&f.maxJobs, "max-jobs", 0, "with --lines: replace a program after this many jobs; default: never")
	fs.StringVar(&f.listen, "listen", "", "serve /healthz, /readyz and /metrics over HTTP at this `ADDRESS`")
	fs.StringVar(&f.tokens, "tokens", "", "`FILE` of the tokens for /metrics; default: those of $DIBS_TOKENS")
	fs.BoolVar(&f.insecure, "insecure", false, "serve /metrics to everybody who reaches it, without tokens")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "log every job, not only failed attempts")
}

// check checks what the worker does not. It looks up the program once, rather than for
// each job.
func (f *workFlags) check(cmd *cobra.Command) error {
	for i, q := range f.queues {
		if err := checks.Name("queue", q.Name); err != nil {
			return err
		}
		if slices.ContainsFunc(f.queues[:i], func(other dibs.WorkQueue) bool { return other.Name == q.Name }) {
			return &dibs.InvalidError{Field: "queue", Reason: fmt.Sprintf("%q is named twice", q.Name)}
		}
	}
	for i, kind := range f.kinds {
		if err := checks.Name("kind", kind); err != nil {
			return err
		}
		if slices.Contains(f.kinds[:i], kind) {
			return &dibs.InvalidError{Field: "kind", Reason: fmt.Sprintf("%q is named twice", kind)}
		}
	}
	if f.name != "" { // without a name, the worker chooses one
		if err := checks.Name("name", f.name); err != nil {
			return err
		}
	}
	if f.concurrency < 1 { // the worker would take 0 for its default
		return &dibs.InvalidError{Field: "concurrency", Reason: fmt.Sprintf("must be at least 1, got %d", f.concurrency)}
	}
	path, err := exec.LookPath(f.argv[0])
	if err != nil {
		return cmdline.Usagef(cmd, "cannot run %q: %w", f.argv[0], err)
	}
	f.argv[0] = path
	switch {
	case f.lines && f.text:
		return cmdline.Usagef(cmd, "--text goes with a program for each job: with --lines, payloads are JSON")
	case !f.lines && (f.shared || cmd.Flags().Changed("max-jobs")):
		return cmdline.Usagef(cmd, "--shared and --max-jobs go with --lines only")
	case !f.shared && cmd.Flags().Changed("processes"):
		return cmdline.Usagef(cmd, "--processes goes with --shared only: without it there are --concurrency processes")
	case f.listen == "" && (f.tokens != "" || f.insecure):
		return cmdline.Usagef(cmd, "--tokens and --insecure go with --listen only")
	case f.processes < 1:
		return &dibs.InvalidError{Field: "processes", Reason: fmt.Sprintf("must be at least 1, got %d", f.processes)}
	case f.maxJobs < 0:
		return &dibs.InvalidError{Field: "max-jobs", Reason: fmt.Sprintf("must not be negative, got %d", f.maxJobs)}
	}
	if f.grace < 0 || f.snooze < 0 || f.shutdown < 0 {
		return cmdline.Usagef(cmd, "--grace, --snooze and --shutdown must not be negative")
	}
	return nil
}

func (a *app) work(ctx context.Context, db cmdline.JobTable, f *workFlags, h *healthServer) error {
	now, stopNow := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNow()
	if f.lines { // what the programs write comes between the lines of the log
		a.Stderr = &runner.LockedWriter{To: a.Stderr}
	}
	log := a.Logger(f.verbose)
	cmdline.SetLog(db, log)
	a.LogDatabase(log)
	table, rows := db.(*cmdline.AdoptedTable)
	if rows {
		go cmdline.WatchStuck(now, table, log)
	}
	p := runner.NewProgram(runner.Options{
		Argv: f.argv, Env: a.programEnv(), Grace: time.Duration(f.grace), Snooze: time.Duration(f.snooze),
		Text: f.text, NoResult: f.noResult, StopAll: now.Done(), Log: log, Rows: rows, NoToken: rows && !table.TokensLast(),
	})
	defer p.Close()
	w := &dibs.Worker{
		Store:        db,
		Queues:       f.queues,
		Name:         f.name,
		Resume:       f.resume,
		Concurrency:  f.concurrency,
		Lease:        time.Duration(f.lease),
		JobTimeout:   time.Duration(f.timeout),
		ShutdownWait: time.Duration(f.shutdown),
		Hooks:        dibs.Hooks{Log: log},
	}
	if f.shutdown == 0 { // the worker would take 0 for its default grace
		w.ShutdownWait = -1
	}
	handle := p.Handle
	if f.lines {
		pool := runner.NewLines(p, runner.LineOptions{
			Store: w.Store, Concurrency: f.concurrency, Processes: f.processes, Shared: f.shared, MaxJobs: f.maxJobs, JSON: a.JSON, Stderr: a.Stderr,
		})
		defer pool.Close()
		defer context.AfterFunc(ctx, pool.Drain)()
		handle = pool.Handle
	}
	for _, kind := range f.kindsOrAll() {
		w.HandleRaw(kind, unlessFaulty(handle))
	}
	if err := h.observe(db, w); err != nil {
		return err
	}
	var forced atomic.Bool
	cmdline.SecondSignal(now, func() {
		forced.Store(true)
		stopNow()
		w.StopNow()
	})
	h.worker.Store(w)
	f.warnOfQueues(ctx, db, log)
	if f.untilEmpty {
		var stop context.CancelCauseFunc
		ctx, stop = context.WithCancelCause(ctx)
		defer stop(nil)
		go untilEmpty(ctx, db, f, func() { stop(errors.New("no such job is left")) })
	}
	err := w.Run(ctx)
	h.ended.Store(true)
	if forced.Load() {
		stopped := fmt.Errorf("%w; jobs whose programs were running are given back, or run again when their leases end", cmdline.ErrSecondSignal)
		return &cmdline.CodeError{Code: cmdline.ExitInterrupted, Err: errors.Join(stopped, err)}
	}
	return err
}

// unlessFaulty runs no job whose row cannot be read.
func unlessFaulty(handle dibs.Handler) dibs.Handler {
	return func(ctx context.Context, job *dibs.RawJob) error {
		if checks.Payload(job); job.Fault != "" {
			return dibs.Die(errors.New("not run: " + job.Fault))
		}
		return handle(ctx, job)
	}
}

// programEnv makes dibs use the same database if a job's program calls it, in any
// folder.
func (a *app) programEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, tokensEnv+"=") })
	env = append(env, "DIBS_DB="+open.Absolute(a.URL()).Reveal())
	if a.Schema != "" {
		env = append(env, "DIBS_SCHEMA="+a.Schema)
	}
	if a.Prefix != "" {
		env = append(env, "DIBS_PREFIX="+a.Prefix)
	}
	return append(env, a.TableEnv()...)
}

// workConns is the number of connections to PostgreSQL that a worker uses, besides one for
// wake-ups: it can extend its leases while another call waits.
const workConns = 2

func (a *app) openToWork(ctx context.Context) (cmdline.JobTable, error) {
	if a.Table != "" {
		return a.OpenTable(ctx)
	}
	return a.Open(ctx)
}
