package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newClaimCmd(a *app) *cobra.Command {
	r := dibs.ClaimRequest{}
	var wait cmdline.DurationFlag
	var resume bool
	cmd := &cobra.Command{
		Use:   "claim [QUEUE] [flags]",
		Short: "Take jobs, for scripts in any language",
		Long: `Take up to -n due jobs of a queue ("default" if none is named) and write each as one
line of JSON (see 'dibs help json'). If no job is due, even after --wait, nothing is written;
that is no error. Jobs that cannot be written are given back, uncounted, and
the exit code is 1; where stdout is closed or /dev/null, none are claimed.

The jobs are this worker's until their leases end. Before that, lengthen the leases with
'dibs extend', and say how the jobs ended with 'dibs finish'; both need the id and the
token of the job, or take the lines that this command wrote.

With --table the queue need not be named; jobs are rows of that table. Where their ids
are not whole numbers from 1 on, "key" is the row's id.`,
		Example: `  dibs claim emails --wait 20s --lease 5m > job.json
  id=$(jq .id job.json) token=$(jq -r .token job.json)
  ./send.sh < job.json && dibs finish $id $token --completed

  dibs claim emails -n 100 | jq -c '. + {ending: "completed"}' | dibs finish`,
		Args: cmdline.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if r.Queue = args[0]; r.Queue == "" {
					return &dibs.InvalidError{Field: "queue", Reason: "is missing"}
				}
			}
			if r.Worker == "" {
				if resume {
					return cmdline.Usagef(cmd, "--resume needs --worker: whose jobs are to be taken back?")
				}
				r.Worker = defaultWorker()
			}
			if a.OutNull {
				return errors.New("stdout is closed or the null device, so nobody can read the jobs: nothing was claimed")
			}
			return a.WithNewTable(cmd.Context(), func(db cmdline.JobTable) (err error) {
				if r.Queue, err = a.QueueOf(cmd.Context(), db, r.Queue); err != nil {
					return err
				}
				jobs, err := claim(cmd.Context(), db, r, time.Duration(wait), resume)
				if err != nil {
					return err
				}
				return a.handOver(cmd.Context(), db, jobs)
			})
		},
		ValidArgsFunction: a.CompleteQueue,
	}
	f := cmd.Flags()
	f.IntVarP(&r.N, "n", "n", 1, "how many jobs at most, `1-10000`")
	f.StringArrayVarP(&r.Kinds, "kind", "k", nil, "only jobs of this `KIND`; may be given again")
	f.StringVar(&r.Worker, "worker", "", "`NAME` of the worker; default: host name and parent process id")
	f.Var((*cmdline.DurationFlag)(&r.Lease), "lease", "length of the leases; default: the queue's")
	f.Var(&wait, "wait", "how long to wait for a job if none is due")
	f.BoolVar(&resume, "resume", false, "take back the jobs that --worker still holds, under a new token")
	return cmd
}

// defaultWorker names the calling script, since each call of dibs is a process of its own.
func defaultWorker() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return fmt.Sprintf("%.200s-%d", host, os.Getppid())
}

// interruptGrace is how long a claim may go on after an interrupt, and the time limit for
// giving jobs back.
const interruptGrace = 5 * time.Second

// handOver writes claimed jobs to stdout. It gives back jobs that cannot be written, and
// all after an interrupt, since otherwise nobody runs them before their leases end.
func (a *app) handOver(ctx context.Context, db cmdline.JobTable, jobs []*dibs.RawJob) error {
	err := ctx.Err()
	for err == nil && len(jobs) > 0 {
		checks.Payload(jobs[0])
		if err = a.WriteJSON(jobs[0]); err == nil {
			jobs = jobs[1:]
		}
	}
	if len(jobs) == 0 {
		return err
	}
	outcomes := make([]dibs.Outcome, len(jobs))
	for i, j := range jobs {
		outcomes[i] = j.Lease().Release()
	}
	releaseCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptGrace)
	defer cancel()
	if stuck := db.Finish(releaseCtx, outcomes); stuck != nil {
		return &cmdline.UnprintedJobs{Err: fmt.Errorf("%s could not be written, and could not be given back: they keep their leases: %w; %w", words.Plural(len(jobs), "claimed job"), err, stuck)}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return &cmdline.UnprintedJobs{Err: fmt.Errorf("%s could not be written and went back to the queue: %w", words.Plural(len(jobs), "claimed job"), err)}
}

// claimInterval is how often a waiting claim looks for jobs that come without a wake-up.
const claimInterval = 500 * time.Millisecond

// claim claims again and again until it gets a job or the wait is over.
func claim(ctx context.Context, db cmdline.JobTable, r dibs.ClaimRequest, wait time.Duration, resume bool) ([]*dibs.RawJob, error) {
	claimCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// An aborted claim may have taken jobs, so an interrupt lets the claim end.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(interruptGrace, cancel) })()
	if resume {
		return db.Resume(claimCtx, dibs.ClaimRequest{Queue: r.Queue, Worker: r.Worker, Lease: r.Lease})
	}
	wake, stop := db.Wakeups(r.Queue)
	defer stop()
	waitOver := time.After(wait)
	for {
		jobs, err := db.Claim(claimCtx, r)
		if err != nil || len(jobs) > 0 || wait <= 0 {
			return jobs, err
		}
		select {
		case <-wake:
		case <-time.After(claimInterval):
		case <-waitOver:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
