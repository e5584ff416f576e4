package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

func newExtendCmd(a *app) *cobra.Command {
	lease := cmdline.DurationFlag(10 * time.Second)
	var progress, text string
	cmd := &cobra.Command{
		Use:   "extend [ID TOKEN] [flags]",
		Short: "Lengthen the leases of claimed jobs",
		Long: `Make leases end --lease from now, on the database's clock: of the job with that id and
token, or of all jobs named on stdin by lines of JSON with "id" and "token", such as
'dibs claim' writes.

The result is one line of JSON: in "lost" the ids of jobs whose lease was lost, which
gives exit code 3, and in "cancelled" those that somebody asked to cancel: stop them,
and finish them with --cancelled. In "timed_out" are those that have run longer than their
queue's --job-timeout: stop them, and finish them with --retry. In "finishing" are those that
an open transaction is finishing; their leases are as they were.

With --progress and --text, or "progress" in the lines (an object with done, total and text),
the jobs' progress is written too: 'dibs show' and 'dibs top' show it while they run.

With --table, ID is the row's id as in 'dibs finish'. Where the mapping has only started_at
to hold leases, they cannot be extended from here: that would change their tokens.`,
		Example: `  dibs extend 17 1f0c6a4b86c5e1e70a5c5f6e2f4d1a33 --lease 1m`,
		Args:    idAndToken,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			told := progress != "" || text != ""
			if told && (len(args) == 0 || a.Table != "") {
				return cmdline.Usagef(cmd, "--progress and --text are for one job of dibs' own tables; lines have it in \"progress\"")
			}
			leases, names, err := a.leases(ctx, args)
			if err == nil && told {
				leases[0].Progress, err = parseProgress(progress, text)
			}
			if err != nil {
				return err
			}
			return a.WithTable(ctx, func(db cmdline.JobTable) error {
				for i := range leases {
					if leases[i].ID, err = cmdline.IDOf(db, names[i]); err != nil {
						return err
					}
				}
				return a.extend(ctx, db, leases, names, time.Duration(lease))
			})
		},
	}
	cmd.Flags().Var(&lease, "lease", "how long from now the leases end")
	cmd.Flags().StringVar(&progress, "progress", "", "how far the job has come: `DONE[/TOTAL]`, such as 3/10")
	cmd.Flags().StringVar(&text, "text", "", "what goes with the progress: `TEXT`")
	return cmd
}

func parseProgress(s, text string) (*dibs.Progress, error) {
	p := &dibs.Progress{Text: text}
	if s == "" {
		return p, nil
	}
	done, total, both := strings.Cut(s, "/")
	var err error
	if p.Done, err = strconv.ParseInt(done, 10, 64); err == nil && both {
		p.Total, err = strconv.ParseInt(total, 10, 64)
	}
	if err != nil || p.Done < 0 || p.Total < 0 {
		return nil, &dibs.InvalidError{Field: "progress", Reason: fmt.Sprintf("must be DONE or DONE/TOTAL, such as 3/10, got %.40q", s)}
	}
	return p, nil
}

// leases reads the leases to extend, and the names of their jobs.
func (a *app) leases(ctx context.Context, args []string) (leases []dibs.Lease, names []string, err error) {
	if len(args) == 2 {
		l, err := a.parseLease(args)
		return []dibs.Lease{l}, args[:1], err
	}
	err = a.eachLine(ctx, func(in *outcomeJSON) error {
		names = append(names, in.name())
		leases = append(leases, dibs.Lease{ID: in.ID, Token: in.Token, Progress: in.Progress})
		return nil
	})
	return leases, names, err
}

func (a *app) extend(ctx context.Context, db cmdline.JobTable, leases []dibs.Lease, names []string, d time.Duration) error {
	got, err := db.Extend(ctx, leases, d)
	if err != nil {
		return err
	}
	out := struct {
		dibs.Extended
		Keys cmdline.RowKeys `json:"keys,omitempty"`
	}{got, cmdline.RowKeys{}}
	for i, l := range leases {
		out.Keys.Add(l.ID, names[i], slices.Concat(got.Lost, got.Cancelled, got.TimedOut, got.Finishing))
	}
	if a.Tell(out); len(got.Lost) == 0 {
		return nil
	}
	return out.Keys.Explain(&dibs.FinishError{Lost: got.Lost})
}
