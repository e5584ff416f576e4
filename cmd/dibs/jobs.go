package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/spf13/cobra"
)

// selection chooses the jobs that a verb changes: by their ids, or by what they are.
type selection struct {
	queue, kind, group, state string
	flags                     []string // the names of those flags
}

func (s *selection) addFlags(cmd *cobra.Command, states string) {
	f := cmd.Flags()
	f.StringVarP(&s.queue, "queue", "q", "", "all jobs of this `queue`")
	f.StringVarP(&s.kind, "kind", "k", "", "all jobs of this `kind`")
	f.StringVarP(&s.group, "group", "g", "", "all jobs of this `group`")
	f.StringVarP(&s.state, "state", "s", "", "all jobs in this `state`: "+states)
	s.flags = []string{"queue", "kind", "group", "state"}
}

func (s *selection) given(cmd *cobra.Command) bool {
	for _, name := range s.flags {
		if cmd.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// check refuses ids together with flags, and neither of them.
func (s *selection) check(cmd *cobra.Command, args []string) error {
	switch byFlags := s.given(cmd); {
	case byFlags && len(args) > 0:
		return usagef(cmd, "give either ids or --queue, --kind, --group, --state, not both")
	case !byFlags && len(args) == 0:
		return usagef(cmd, "which jobs? give ids ('-' reads them from stdin), or --queue, --kind, --group, --state")
	}
	return nil
}

// ids lists the chosen jobs.
func (s *selection) ids(ctx context.Context, db dibs.Database, a *app, args []string) ([]int64, error) {
	if len(args) > 0 {
		return a.readIDs(ctx, args)
	}
	if err := checkQueue(ctx, db, s.queue); err != nil {
		return nil, err
	}
	var ids []int64
	f := dibs.Filter{Queue: s.queue, Kind: s.kind, Group: s.group, State: dibs.State(s.state), Limit: 1000}
	for {
		page, err := db.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if f.After = page.Next; f.After == "" {
			return ids, nil
		}
	}
}

// readIDs reads ids from the arguments, and from stdin where one is "-".
func (a *app) readIDs(ctx context.Context, args []string) ([]int64, error) {
	var ids []int64
	for _, arg := range args {
		if arg != "-" {
			id, err := parseID(arg)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
			continue
		}
		words := bufio.NewScanner(interruptible(ctx, a.stdin))
		words.Split(bufio.ScanWords)
		for words.Scan() {
			id, err := parseID(words.Text())
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		if err := words.Err(); err != nil {
			return nil, fmt.Errorf("read ids: %w", err)
		}
	}
	return ids, nil
}

func parseID(s string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 1 {
		return 0, &dibs.InvalidError{Field: "id", Reason: fmt.Sprintf("must be a job's number, got %.40q", s)}
	}
	return id, nil
}

// batches calls f with the ids, as many at once as a store takes.
func batches(ids []int64, f func([]int64) error) error {
	for len(ids) > 0 {
		n := min(len(ids), dibs.MaxBatch)
		if err := f(ids[:n]); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// missed is the error for ids that were named but not changed.
func missed(ids []int64, changed map[int64]bool, done, why string) error {
	var left []int64
	for _, id := range ids {
		if !changed[id] {
			left = append(left, id)
		}
	}
	switch len(left) {
	case 0:
		return nil
	case 1:
		return &hintError{
			err:  &codeError{exitNotFound, fmt.Errorf("job %d was not %s: %s", left[0], done, why)},
			next: fmt.Sprintf("look at it with 'dibs show %d'", left[0]),
		}
	}
	return &hintError{
		err:  &codeError{exitNotFound, fmt.Errorf("%d of %d jobs were not %s (first: %d): %s", len(left), len(ids), done, left[0], why)},
		next: fmt.Sprintf("look at one with 'dibs show %d'", left[0]),
	}
}

// checkQueue returns an error that names the known queues if there is none of that
// name. An empty name is no queue to check.
func checkQueue(ctx context.Context, db dibs.Queues, name string) error {
	if name == "" {
		return nil
	}
	queues, err := db.Queues(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(queues))
	for i, q := range queues {
		if q.Name == name {
			return nil
		}
		names[i] = q.Name
	}
	return unknownQueue(name, names)
}

func unknownQueue(name string, known []string) *hintError {
	next := "this database has no queues yet; 'dibs enqueue' makes them"
	if n := len(known); n > 0 {
		const most = 10
		if n > most {
			known = append(known[:most:most], fmt.Sprintf("and %d more: 'dibs queue'", n-most))
		}
		next = "known queues: " + printable(strings.Join(known, ", "))
	}
	if likeMapping(name) {
		next = fmt.Sprintf("did you mean --table %s? %s", shellWord(name), next)
	}
	return &hintError{err: fmt.Errorf("%w %q", dibs.ErrUnknownQueue, clip(printable(name), 60)), next: next}
}

// invalidField says whether err refuses the i-th job of a batch.
func invalidField(err error) (i int, rule *dibs.InvalidError, ok bool) {
	if !errors.As(err, &rule) {
		return 0, nil, false
	}
	if _, err := fmt.Sscanf(rule.Field, "jobs[%d].", &i); err != nil {
		return 0, nil, false
	}
	_, field, _ := strings.Cut(rule.Field, "].")
	return i, &dibs.InvalidError{Field: field, Reason: rule.Reason}, true
}
