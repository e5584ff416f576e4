package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dibs-queue/dibs"
)

// bulkChange is what cancel, requeue and edit do to the jobs of a selection, batch by batch.
type bulkChange struct {
	*app
	*selection
	db    jobTable
	apply func(ids []int64) ([]changed, error)
	can   func(dibs.State) bool // whether a job in that state would be changed
	words changeWords
	verb  string // of the command

	named    int // jobs that were chosen
	batches  int // that were worked off
	changed  int
	stopping int // those of them whose workers were asked to stop
	missed   int // jobs that were named and not changed
	first    int64
}

// changeWords are what is said of the change.
type changeWords struct {
	done, would string // with %s for the number of jobs: "cancelled %s", "would cancel %s"
	passive     string // "cancelled"
	why         string // why a job that was named was not changed
}

// changed is a job that was changed, or would be.
type changed struct {
	ID    int64      `json:"id"`
	State dibs.State `json:"state,omitempty"`
}

// changedTo lists jobs that now have a state; empty for a change that leaves it as it is.
func changedTo(state dibs.State, ids []int64) []changed {
	list := make([]changed, len(ids))
	for i, id := range ids {
		list[i] = changed{id, state}
	}
	return list
}

// run makes the change and says what was done.
func (c *bulkChange) run(ctx context.Context) error {
	if err := c.confirm(ctx); err != nil {
		return err
	}
	bar := &progress{}
	if !c.json { // its lines would run into the bar
		bar = c.progress("jobs", -1)
	}
	err := c.each(ctx, c.db, c.stdin, func(list []chosen) error {
		defer bar.add(len(list))
		return c.batch(ctx, list)
	})
	bar.close()
	if err != nil {
		return c.halfway(err)
	}
	if !c.json {
		for _, text := range c.sum() {
			c.say("%s", text)
		}
	}
	if len(c.args) == 0 || c.missed == 0 { // what ended between the list and the call is no mistake
		return nil
	}
	return c.missedError()
}

func (c *bulkChange) batch(ctx context.Context, list []chosen) error {
	ids := make([]int64, len(list))
	for i, j := range list {
		ids[i] = j.id
	}
	done, err := c.look(ctx, list)
	if err == nil && !c.dryRun {
		done, err = c.apply(ids)
	}
	if err != nil {
		return err
	}
	hit := make(map[int64]bool, len(done))
	for _, j := range done {
		hit[j.ID] = true
		if j.State == dibs.Running {
			c.stopping++
		}
	}
	c.batches++
	c.named += len(list)
	c.changed += len(hit)
	for _, id := range ids {
		if !hit[id] {
			if c.missed++; c.missed == 1 {
				c.first = id
			}
		}
	}
	if c.json {
		for _, j := range done {
			c.tell(j)
		}
	}
	return nil
}

// look tells, for --dry-run, which of the jobs would be changed.
func (c *bulkChange) look(ctx context.Context, list []chosen) ([]changed, error) {
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
		if c.can(j.state) {
			would = append(would, changed{j.id, j.state})
		}
	}
	return would, nil
}

// sum is what was done, or would be, in a sentence or two.
func (c *bulkChange) sum() []string {
	done, stop := c.words.done, "asked the workers of %s to stop"
	if c.dryRun {
		done, stop = c.words.would, "would ask the workers of %s to stop"
	}
	var parts []string
	if ended := c.changed - c.stopping; ended > 0 || c.named == 0 {
		parts = append(parts, fmt.Sprintf(done, plural(ended, "job")))
	}
	if c.stopping > 0 {
		parts = append(parts, fmt.Sprintf(stop, plural(c.stopping, "running job")))
	}
	return parts
}

// halfway adds to an error what was done before it.
func (c *bulkChange) halfway(err error) error {
	if c.batches == 0 {
		return err
	}
	done := strings.Join(c.sum(), ", ")
	if done == "" {
		done = "none was " + c.words.passive
	}
	after := fmt.Errorf("%w; of the %s before that: %s", err, plural(c.named, "job"), done)
	if errors.Is(err, dibs.ErrInvalid) {
		return &codeError{exitPartial, after}
	}
	return after
}

// confirm asks whether all jobs in a state are meant.
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
	fmt.Fprintf(c.stderr, "%s: all %s %s jobs, of all queues? [y/N] ", c.verb, count(n), c.state)
	answer, err := bufio.NewReader(interruptible(ctx, c.stdin)).ReadString('\n')
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

// missedError is the error for ids that were named but not changed.
func (c *bulkChange) missedError() error {
	next := fmt.Sprintf("look at it with 'dibs show %d'", c.first)
	err := fmt.Errorf("job %d was not %s: %s", c.first, c.words.passive, c.words.why)
	if c.missed > 1 {
		next = fmt.Sprintf("look at one with 'dibs show %d'", c.first)
		err = fmt.Errorf("%d of %d jobs were not %s (first: %d): %s", c.missed, c.named, c.words.passive, c.first, c.words.why)
	}
	return &hintError{err: &codeError{exitNotFound, err}, next: next}
}
