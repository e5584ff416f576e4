package database

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newLocksCmd(a *app) *cobra.Command {
	n := 10
	cmd := &cobra.Command{
		Use:   "locks [QUEUE] [flags]",
		Short: "Show what a claim locks, and who waits for it",
		Long: `Claim some due jobs of a queue ("default" if none is named) in a transaction that is
rolled back; before that, list every lock that it holds, and try what others do: claim,
enqueue, extend, finish, read, change settings. All of that is rolled back, too: nothing
has changed afterwards. For that moment, workers do not get these jobs.

On PostgreSQL it looks for locked rows among those that the claim took and the first
10,000 of each table and, in the queue, of each state; on MariaDB among those that the
claim took, and those by which claims take turns. On SQLite there is one lock: the file has
one writer at a time, and it matters how long that one takes.`,
		Example: `  dibs locks emails
  dibs locks emails -n 100 --json | jq '.others[] | select(.waits_for)'`,
		Args: cmdline.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			queue := dibs.DefaultQueue
			if len(args) == 1 {
				if queue = args[0]; queue == "" {
					return &dibs.InvalidError{Field: "queue", Reason: "is missing"}
				}
			}
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				return a.locks(cmd.Context(), db, queue, n)
			})
		},
		ValidArgsFunction: a.CompleteQueue,
	}
	cmd.Flags().IntVarP(&n, "n", "n", n, "how many jobs to claim at most, `1-10000`")
	return cmd
}

// locker is a database that can report its own locks.
type locker interface {
	Locks(ctx context.Context, queue string, n int) (admin.Footprint, error)
}

func (a *app) locks(ctx context.Context, db admin.Database, queue string, n int) error {
	if err := cmdline.CheckQueue(ctx, db, queue); err != nil {
		return err
	}
	l, ok := db.(locker)
	if !ok {
		return errors.New("locks: dibs cannot show them on this kind of database yet")
	}
	f, err := l.Locks(ctx, queue, n)
	if err != nil {
		return err
	}
	next := ""
	if f.Claimed == 0 {
		if f.Note, next, err = nothingToLock(ctx, db, f); err != nil {
			return err
		}
	}
	switch {
	case a.JSON:
		return a.WriteJSON(footprintJSONOf(f))
	case f.Claimed == 0:
		a.Say("%s, so a claim takes and locks nothing.\n%s", f.Note, next)
	default:
		a.writeLocks(f)
	}
	return nil
}

// nothingToLock explains why a claim took no job, and what to do.
func nothingToLock(ctx context.Context, db admin.Database, f admin.Footprint) (why, next string, err error) {
	q, s, err := queueAndCounts(ctx, db, f.Queue)
	if err != nil {
		return "", "", err
	}
	name := term.Clip(words.Printable(f.Queue), 60)
	add := "Add one to try with: " + words.Command("dibs enqueue", f.Queue)
	switch due := s.Waiting - s.Scheduled; {
	case f.Paused:
		return fmt.Sprintf("queue %s is paused", name), "Let it go on: " + words.Command("dibs resume", f.Queue), nil
	case q.Concurrency > 0 && s.Running >= int64(q.Concurrency):
		return fmt.Sprintf("queue %s has a limit of %s at once, and %s running", name, words.Plural(q.Concurrency, "job"), words.Count(s.Running)),
			"Try again when one has ended, or raise the limit: " + words.Command("dibs queue", f.Queue, fmt.Sprintf("--concurrency %d", s.Running+1)), nil
	case due > 0:
		return fmt.Sprintf("another transaction holds what is due in queue %s", name), "Try again when it has ended.", nil
	case s.Blocked > 0:
		return fmt.Sprintf("what is left in queue %s (%s) waits for other jobs, of its group or that it comes after", name, words.Plural(int(s.Blocked), "job")),
			"Try again when they have ended; to see them: " + words.Command("dibs ls", f.Queue), nil
	case s.Waiting > 0:
		return fmt.Sprintf("no job of queue %s is due yet", name), add, nil
	case s.Running > 0:
		page, err := db.List(ctx, admin.Filter{Queue: f.Queue, State: dibs.Running, Limit: 1000})
		ended := slices.DeleteFunc(page.Jobs, func(j *dibs.RawJob) bool { return j.LeaseUntil.After(time.Now()) })
		if len(ended) > 0 {
			return fmt.Sprintf("in queue %s the leases of %s have ended, and no sweep has taken them back yet", name, words.Plural(len(ended), "job")),
				"A worker's sweep does so within two seconds, or at once: " + words.Command("dibs claim", f.Queue), err
		}
		return fmt.Sprintf("all jobs of queue %s are running", name), add, err
	}
	return fmt.Sprintf("there is no job in queue %s", name), add, nil
}

// queueAndCounts returns a queue's settings and counts.
func queueAndCounts(ctx context.Context, db admin.Database, name string) (q dibs.Queue, s admin.QueueStats, err error) {
	queues, err := db.Queues(ctx, name)
	if err != nil {
		return q, s, err
	}
	stats, err := db.Stats(ctx)
	for _, each := range queues {
		if each.Name == name {
			q = each
		}
	}
	for _, each := range stats {
		if each.Queue == name {
			s = each
		}
	}
	return q, s, err
}

func (a *app) writeLocks(f admin.Footprint) {
	a.Say("A claim of %s from queue %s took %s. Until its end it holds:\n", words.Plural(f.Claimed, "job"), a.Cell(f.Queue, 20), formatMillis(f.Took))
	t := a.TableOf("LOCK ON", "MODE", "MEANS")
	for _, l := range f.Locks {
		on := l.On
		switch {
		case l.Rows == 1:
			on = "1 row of " + strings.TrimPrefix(on, "rows of ")
		case l.Rows > 1:
			on = words.Count(int64(l.Rows)) + " " + on
		}
		t.AppendRow([]any{words.Printable(on), l.Mode, l.Means})
	}
	t.Render()
	if f.Note != "" {
		a.Say("\n%s", words.Printable(f.Note))
	}
	a.Say("\nMeanwhile others do:\n")
	t = a.TableOf("WHAT", "HOW LONG")
	waiting := 0
	for _, o := range f.Others {
		how := "at once (" + formatMillis(o.Took) + ")"
		switch {
		case o.WaitsFor != "":
			how = a.Paint(term.Yellow, "waits for "+words.Printable(o.WaitsFor))
			waiting++
		case o.Untried:
			how = a.Paint(term.Faint, "not tried")
		}
		if o.Note != "" {
			how += ": " + words.Printable(o.Note)
		}
		t.AppendRow([]any{words.Printable(o.What), how})
	}
	t.Render()
	a.Say("\nAll was rolled back: nothing has changed. %s", waitNote(waiting))
}

// waitNote says when the waits end.
func waitNote(waiting int) string {
	if waiting == 0 {
		return "Nobody waits for a claim."
	}
	return "A wait ends with the claim."
}

// formatMillis formats a short duration with about two digits.
func formatMillis(d time.Duration) string {
	switch ms := d.Seconds() * 1e3; {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 1:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.2f ms", ms)
	}
}

type footprintJSON struct {
	Queue   string       `json:"queue"`
	Paused  bool         `json:"paused"`
	Claimed int          `json:"claimed"`
	Took    wire.Seconds `json:"took"`
	Locks   []admin.Lock `json:"locks"`
	Others  []otherJSON  `json:"others"`
	Note    string       `json:"note,omitempty"`
}

type otherJSON struct {
	What     string       `json:"what"`
	Took     wire.Seconds `json:"took"`
	WaitsFor string       `json:"waits_for,omitempty"`
	Untried  bool         `json:"untried,omitempty"`
	Note     string       `json:"note,omitempty"`
}

func footprintJSONOf(f admin.Footprint) footprintJSON {
	j := footprintJSON{
		Queue: f.Queue, Paused: f.Paused, Claimed: f.Claimed, Took: wire.Seconds(f.Took),
		Locks: append([]admin.Lock{}, f.Locks...), Others: []otherJSON{}, Note: f.Note,
	}
	for _, o := range f.Others {
		j.Others = append(j.Others, otherJSON{o.What, wire.Seconds(o.Took), o.WaitsFor, o.Untried, o.Note})
	}
	return j
}
