package jobs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/spf13/cobra"
)

// selection chooses the jobs that a verb changes: by id, or by their fields.
type selection struct {
	queue, kind, group, state, worker, error string

	ended  bool      // without a state, select jobs in all final states
	before time.Time // if not zero, only jobs that ended before
	flow   int64     // if not zero, all jobs of the flow of this one that have not ended
	failed bool      // with flow, select instead its dead jobs, and those that were cancelled though they were needed

	all    bool     // --all: confirms a change in all queues
	dryRun bool     // --dry-run: change nothing
	args   []string // the ids
}

func (s *selection) addFlags(cmd *cobra.Command, states string) {
	f := cmd.Flags()
	f.StringVarP(&s.queue, "queue", "q", "", "all jobs of this `queue`")
	f.StringVarP(&s.kind, "kind", "k", "", "all jobs of this `kind`")
	f.StringVarP(&s.group, "group", "g", "", "all jobs of this `group`")
	f.StringVarP(&s.state, "state", "s", "", "all jobs in this `state`: "+states)
	f.StringVarP(&s.worker, "worker", "w", "", "all jobs that this `worker` claimed last")
	f.StringVar(&s.error, "error", "", "all jobs with this `text` in their last error")
	f.BoolVar(&s.all, "all", false, "confirm a change in all queues; needed with --state alone")
	f.BoolVar(&s.dryRun, "dry-run", false, "change nothing; print how many jobs would, with --json which ones")
}

// addFlow adds the flag --flow, which no other goes with.
func (s *selection) addFlow(cmd *cobra.Command, which string) {
	cmd.Flags().Int64Var(&s.flow, "flow", 0, which+" of the flow of the job with this `id`")
	flowAlone(cmd, "queue", "kind", "group", "state", "worker", "error", "all")
}

// flowAlone refuses the flag --flow beside others.
func flowAlone(cmd *cobra.Command, others ...string) {
	for _, other := range others {
		cmd.MarkFlagsMutuallyExclusive("flow", other)
	}
}

// checkFlow refuses a value of --flow that is no job's number.
func checkFlow(cmd *cobra.Command, n int64) error {
	if flag := cmd.Flags().Lookup("flow"); flag != nil && flag.Changed && n < 1 {
		return &dibs.InvalidError{Field: "flow", Reason: fmt.Sprintf("must be a job's number, got %d", n)}
	}
	return nil
}

// check refuses ids together with flags, neither of them, and all jobs of all queues if
// there is no terminal on which to ask for confirmation.
func (s *selection) check(a *app, cmd *cobra.Command, args []string) error {
	s.args = args
	if err := checkFlow(cmd, s.flow); err != nil {
		return err
	}
	byFlags := s.all || s.flow != 0
	for _, name := range []string{"queue", "kind", "group", "state", "worker", "error"} {
		byFlags = byFlags || cmd.Flags().Changed(name)
	}
	switch {
	case byFlags && len(args) > 0:
		return cmdline.Usagef(cmd, "give either ids or flags such as --queue and --state, not both")
	case !byFlags && len(args) == 0:
		return cmdline.Usagef(cmd, "which jobs? give ids ('-' reads them from stdin), or --queue, --kind, --group, --state, --worker, --error, --all%s", orFlow(cmd))
	case s.wide() && !(a.InTTY && a.ErrTTY):
		return cmdline.Usagef(cmd, "that would be jobs of all queues: narrow it with --queue, --kind, --group, --worker or --error, or add --all")
	}
	return nil
}

// orFlow names the flag --flow where a verb has it.
func orFlow(cmd *cobra.Command) string {
	if cmd.Flags().Lookup("flow") == nil {
		return ""
	}
	return ", --flow"
}

// wide reports whether the selection covers all queues and needs a confirmation.
func (s *selection) wide() bool {
	return len(s.args) == 0 && s.queue == "" && s.kind == "" && s.group == "" && s.worker == "" && s.error == "" && s.flow == 0 && !s.all && !s.dryRun
}

// chosen is a job of the selection. The state of a job named by its id is unknown.
type chosen struct {
	id         int64
	state      dibs.State
	finishedAt time.Time
}

// each calls f with batches of the chosen jobs, as large as a store takes. Only one batch is
// in memory, and the ids of a flow.
func (s *selection) each(ctx context.Context, db cmdline.JobTable, stdin io.Reader, f func([]chosen) error) error {
	var list []chosen
	flush := func() error {
		err := f(list)
		list = list[:0]
		return err
	}
	add := func(j chosen) error {
		// A change passes over what has ended since the last of its batch did. Ends of another state were listed later.
		if len(list) > 0 && !j.finishedAt.IsZero() && j.state != list[0].state {
			if err := flush(); err != nil {
				return err
			}
		}
		if list = append(list, j); len(list) < dibs.MaxBatch {
			return nil
		}
		return flush()
	}
	walk := s.eachListed
	if s.flow != 0 {
		walk = s.eachOfFlow
	}
	if len(s.args) > 0 {
		walk = func(ctx context.Context, db cmdline.JobTable, add func(chosen) error) error {
			return s.eachNamed(ctx, db, stdin, add)
		}
	}
	if err := walk(ctx, db, add); err != nil || len(list) == 0 {
		return err
	}
	return flush()
}

// eachListed calls f with the jobs that the flags describe. Pages follow the order in which jobs
// came or ended, so that a change of the jobs of one page does not move the next.
func (s *selection) eachListed(ctx context.Context, db cmdline.JobTable, add func(chosen) error) (err error) {
	if err := cmdline.CheckQueue(ctx, db, s.queue); err != nil {
		return err
	}
	if _, adopted := db.(*cmdline.AdoptedTable); adopted { // its pages are counted, so a change would move the next
		var all []chosen
		now := add
		add = func(j chosen) error {
			all = append(all, j)
			return nil
		}
		defer func() {
			for _, j := range all {
				if err == nil {
					err = now(j)
				}
			}
		}()
	}
	states := []dibs.State{dibs.State(s.state)}
	if s.ended && s.state == "" {
		states = []dibs.State{dibs.Completed, dibs.Dead, dibs.Cancelled}
	}
	for _, state := range states {
		by := admin.Filter{Queue: s.queue, Kind: s.kind, Group: s.group, State: state, Worker: s.worker, Error: s.error, FinishedBefore: s.before, Limit: 1000}
		for more := true; more; more = by.After != "" {
			page, err := db.List(ctx, by)
			if err != nil {
				return err
			}
			for _, j := range page.Jobs {
				if err := add(chosen{j.ID, j.State, j.FinishedAt}); err != nil {
					return err
				}
			}
			by.After = page.Next
		}
	}
	return nil
}

// eachOfFlow calls add with jobs of a flow. Of those that have not ended, those that come after others come first: else the
// end of a job would have others start. Failed ones come after those that they come after: else they would be cancelled again.
func (s *selection) eachOfFlow(ctx context.Context, db cmdline.JobTable, add func(chosen) error) error {
	flow, flows, err := flowOf(ctx, db, s.flow, s.withoutFlow())
	if err != nil {
		return err
	}
	states := []dibs.State{""}
	if s.failed {
		states = []dibs.State{dibs.Dead, dibs.Cancelled}
	}
	var all []chosen
	for _, state := range states {
		for before, more := int64(0), true; more; {
			ids, err := flows.FlowJobs(ctx, flow, state, before)
			if err != nil {
				return err
			}
			for _, id := range ids {
				all = append(all, chosen{id: id, state: state})
				before = id
			}
			more = len(ids) == dibs.MaxBatch
		}
	}
	if s.failed {
		slices.SortFunc(all, func(a, b chosen) int { return cmp.Compare(a.id, b.id) })
	}
	for _, j := range all {
		if err := add(j); err != nil {
			return err
		}
	}
	return nil
}

// flowLister is what a store with flows has.
type flowLister interface {
	flowReader
	FlowJobs(ctx context.Context, flow int64, state dibs.State, before int64) ([]int64, error)
}

// flowOf finds the flow of a job. If it has none, the error says what to do next.
func flowOf(ctx context.Context, db cmdline.JobTable, id int64, next string) (int64, flowLister, error) {
	flows, has := db.(flowLister)
	if !has {
		return 0, nil, &cmdline.CodeError{Code: cmdline.ExitUsage, Err: errors.New("--flow: the rows of an adopted table come after no others")}
	}
	f, err := flows.Flow(ctx, id, 1)
	if err == nil && f.Flow == 0 {
		err = &cmdline.HintError{Err: &cmdline.CodeError{Code: cmdline.ExitNotFound, Err: fmt.Errorf("job %d has no flow: no job of its call comes after another", id)}, Next: next}
	}
	return f.Flow, flows, err
}

// withoutFlow says what to do with a job that has no flow.
func (s *selection) withoutFlow() string {
	if s.failed {
		return fmt.Sprintf("'dibs requeue %d' puts it back", s.flow)
	}
	return fmt.Sprintf("'dibs cancel %d' cancels it, and the jobs that need it completed", s.flow)
}

// eachNamed reads ids from the arguments, and from stdin at the argument "-". It finds a
// mistake in the arguments before it calls f.
func (s *selection) eachNamed(ctx context.Context, db cmdline.JobTable, stdin io.Reader, add func(chosen) error) error {
	ids := make([]int64, len(s.args))
	for i, arg := range s.args {
		var err error
		if arg == "-" {
			continue
		} else if ids[i], err = cmdline.IDOf(db, arg); err != nil {
			return err
		}
	}
	for _, id := range ids {
		var err error
		if id != 0 {
			err = add(chosen{id: id})
		} else {
			err = eachWord(ctx, stdin, func(word string) error {
				id, err := cmdline.IDOf(db, word)
				if err != nil {
					return err
				}
				return add(chosen{id: id})
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachWord calls f with the words of stdin, which blanks and line ends separate. It adds the
// line number to errors of the kind ErrInvalid.
func eachWord(ctx context.Context, stdin io.Reader, f func(string) error) error {
	const most = 1 << 10 // longer than any id; the rest of the word is left out
	in := bufio.NewReaderSize(cmdline.Interruptible(ctx, stdin), 64<<10)
	var word []byte
	for line := 1; ; {
		b, err := in.ReadByte()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("read ids from stdin, line %d: %w", line, err)
		case err == nil && b > ' ':
			if len(word) < most {
				word = append(word, b)
			}
			continue
		}
		if len(word) > 0 {
			err := f(string(word))
			var rule *dibs.InvalidError
			if errors.As(err, &rule) && rule.Field == "id" {
				err = &cmdline.HintError{
					Err:  &dibs.InvalidError{Field: fmt.Sprintf("stdin:%d: id", line), Reason: rule.Reason},
					Next: "give ids with blanks or line ends between them, such as jq '.jobs[].id' makes of 'dibs ls --json'",
				}
			}
			if err != nil {
				return err
			}
			word = word[:0]
		}
		if err != nil {
			return nil
		}
		if b == '\n' {
			line++
		}
	}
}
