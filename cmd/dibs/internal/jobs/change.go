package jobs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

// bulkChange makes a change (cancel, requeue, edit or prune) to the jobs of a selection, batch by batch.
type bulkChange struct {
	*app
	*selection
	db         cmdline.JobTable
	apply      func(ids []int64, until time.Time) ([]changed, error) // no listed job has ended after the time until
	changeable func(dibs.State) bool                                 // reports whether a job in that state would be changed
	words      changeWords
	cmd        *cobra.Command // its name is the verb
	// consequences, if not nil, says what the change of these jobs means for others.
	consequences func(ids []int64) []string

	chosen      int // number of jobs in the finished batches
	batchesDone int // number of finished batches
	changed     int
	ids         []int64 // some of the changed jobs
	stopping    int     // number of changed jobs whose workers were asked to stop
	unchanged   int     // number of chosen jobs that were not changed
	first       int64
}

// changeWords are the phrases of messages about a change.
type changeWords struct {
	done, would  string // %s is the number of jobs: "cancelled %s", "would cancel %s"
	passive      string // "cancelled"
	whyUnchanged string // reason why a named job was not changed
	whyKept      string // reason why a job was not changed that others come after which have not ended; empty: that is none
}

// changed is a job that was, or would be, changed.
type changed struct {
	ID    int64      `json:"id"`
	State dibs.State `json:"state,omitempty"`
}

// changedTo lists jobs with their new state, which is "" if the change keeps the state.
func changedTo(state dibs.State, ids []int64) []changed {
	list := make([]changed, len(ids))
	for i, id := range ids {
		list[i] = changed{id, state}
	}
	return list
}

// run makes the change and prints a summary.
func (c *bulkChange) run(ctx context.Context) error {
	if err := c.confirm(ctx); err != nil {
		return err
	}
	bar := &term.Progress{}
	if !c.JSON { // lines of JSON would collide with the bar
		bar = c.Progress("jobs", -1)
	}
	err := c.each(ctx, c.db, c.Stdin, func(list []chosen) error {
		defer bar.Add(len(list))
		return c.batch(ctx, list)
	})
	bar.Close()
	if !c.dryRun {
		c.Noted(ctx, c.db, c.cmd.Name(), c.changed, cmdline.WithFlags(c.cmd, words.Jobs(c.ids, c.changed)))
	}
	if err != nil {
		return c.withProgress(err)
	}
	if !c.JSON {
		lines := c.summary()
		if c.consequences != nil && !c.dryRun {
			lines = append(lines, c.consequences(c.ids)...)
		}
		for _, text := range lines {
			c.Say("%s", text)
		}
	}
	if len(c.args) == 0 || c.unchanged == 0 { // a listed job that ended before the call is no mistake
		return nil
	}
	return c.missedError(ctx)
}

func (c *bulkChange) batch(ctx context.Context, list []chosen) error {
	ids, until := make([]int64, len(list)), time.Time{}
	for i, j := range list {
		if ids[i] = j.id; j.finishedAt.After(until) {
			until = j.finishedAt
		}
	}
	done, err := c.preview(ctx, list)
	if err == nil && !c.dryRun {
		done, err = c.apply(ids, until)
	}
	if err != nil {
		return err
	}
	hit := make(map[int64]bool, len(done))
	for _, j := range done {
		hit[j.ID] = true
		if c.ids = append(c.ids, j.ID); len(c.ids) > words.MostIDs {
			c.ids = c.ids[:words.MostIDs]
		}
		if j.State == dibs.Running {
			c.stopping++
		}
	}
	c.batchesDone++
	c.chosen += len(list)
	c.changed += len(hit)
	for _, id := range ids {
		if !hit[id] {
			if c.unchanged++; c.unchanged == 1 {
				c.first = id
			}
		}
	}
	if c.JSON {
		for _, j := range done {
			c.Tell(j)
		}
	}
	return nil
}

// preview returns, for --dry-run, the jobs that would be changed.
func (c *bulkChange) preview(ctx context.Context, list []chosen) ([]changed, error) {
	if !c.dryRun {
		return nil, nil
	}
	var would []changed
	for _, j := range list {
		if j.state == "" {
			job, err := c.db.Get(ctx, j.id)
			switch {
			case errors.Is(err, dibs.ErrNotFound):
				continue
			case err != nil:
				return nil, err
			}
			j.state = job.State
		}
		if c.changeable(j.state) {
			would = append(would, changed{j.id, j.state})
		}
	}
	return would, nil
}

// summary describes what was, or would be, done.
func (c *bulkChange) summary() []string {
	done, stop := c.words.done, "asked the workers of %s to stop"
	if c.dryRun {
		done, stop = c.words.would, "would ask the workers of %s to stop"
	}
	var parts []string
	if ended := c.changed - c.stopping; ended > 0 || c.chosen == 0 {
		parts = append(parts, fmt.Sprintf(done, words.Plural(ended, "job")))
	}
	if c.stopping > 0 {
		parts = append(parts, fmt.Sprintf(stop, words.Plural(c.stopping, "running job")))
	}
	return parts
}

// withProgress adds to an error what was done before it.
func (c *bulkChange) withProgress(err error) error {
	if c.batchesDone == 0 {
		return err
	}
	done := strings.Join(c.summary(), ", ")
	if done == "" {
		done = "none was " + c.words.passive
	}
	after := fmt.Errorf("%w; of the %s before that: %s", err, words.Plural(c.chosen, "job"), done)
	if errors.Is(err, dibs.ErrInvalid) {
		return &cmdline.CodeError{Code: cmdline.ExitPartial, Err: after}
	}
	return after
}

// confirm asks for confirmation of a change of all jobs in a state.
func (c *bulkChange) confirm(ctx context.Context) error {
	if !c.wide() {
		return nil
	}
	stats, err := c.db.Stats(ctx)
	if err != nil {
		return err
	}
	var n int64
	for _, q := range stats {
		n += map[dibs.State]int64{
			dibs.Waiting: q.Waiting, dibs.Blocked: q.Blocked, dibs.Running: q.Running,
			dibs.Completed: q.Completed, dibs.Dead: q.Dead, dibs.Cancelled: q.Cancelled,
		}[dibs.State(c.state)]
	}
	if n == 0 {
		return nil
	}
	fmt.Fprintf(c.Stderr, "%s: all %s %s jobs, of all queues? [y/N] ", c.cmd.Name(), words.Count(n), c.state)
	answer, err := bufio.NewReader(cmdline.Interruptible(ctx, c.Stdin)).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, io.EOF):
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// missedError is the error for named jobs that were not changed.
func (c *bulkChange) missedError(ctx context.Context) error {
	show := fmt.Sprintf("'dibs show %d'", c.first)
	if c.Table != "" {
		show = fmt.Sprintf("'dibs show --table %s %d'", words.ShellWord(c.Table), c.first)
	}
	next := "look at it with " + show
	err := fmt.Errorf("job %d was not %s: %s", c.first, c.words.passive, c.whyFirst(ctx))
	if c.unchanged > 1 {
		next = "look at one with " + show
		err = fmt.Errorf("%d of %d jobs were not %s (first: %d): %s", c.unchanged, c.chosen, c.words.passive, c.first, c.words.whyUnchanged)
	}
	return &cmdline.HintError{Err: &cmdline.CodeError{Code: cmdline.ExitNotFound, Err: err}, Next: next}
}

// whyFirst says why the first of the jobs that were not changed was not. Of an adopted table only
// the user knows in which state a row is that has ended.
func (c *bulkChange) whyFirst(ctx context.Context) string {
	if c.Adopted != nil {
		return c.words.whyUnchanged
	}
	switch j, err := c.db.Get(ctx, c.first); {
	case errors.Is(err, dibs.ErrNotFound):
		return "there is no such job"
	case err == nil && c.words.whyKept != "" && j.State.Final() && around(ctx, c.db, []int64{c.first}, 1000, followersLive):
		return c.words.whyKept
	case err != nil || c.changeable(j.State): // it may have changed since
		return c.words.whyUnchanged
	default:
		return "it is " + string(j.State)
	}
}
