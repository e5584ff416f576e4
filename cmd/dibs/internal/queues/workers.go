package queues

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/term"
	"github.com/dibs-queue/dibs/internal/holdups"
	"github.com/dibs-queue/dibs/internal/wire"
	"github.com/dibs-queue/dibs/internal/words"
	"github.com/spf13/cobra"
)

func newWorkersCmd(a *app) *cobra.Command {
	var jobs bool
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the workers and what they hold",
		Long: fmt.Sprintf(`List the workers of all queues, and the jobs that they hold.

  STATE      working; stopping, if it only waits for its last jobs; queue paused, if all its
             queues are; lost, if the database has not seen it for %s: it has
             crashed, or cannot reach the database. Lost ones are listed for up to %s.
             A dash: a name that holds jobs and is no worker, as of 'dibs claim'
  KINDS      that it has handlers for; * for all
  RUNNING    jobs that it holds, of its places; with --jobs, which
  SEEN       how long ago it last reported, as it does every 10 s

Workers of the same name share what jobs are listed for that name. Workers on an adopted table
are not listed.`, wire.FormatDuration(dibs.WorkerLostAfter), wire.FormatDuration(dibs.WorkerKeptFor)),
		Example: `  dibs workers
  dibs workers --json | jq 'select(.state == "lost") | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithExistingDatabase(cmd.Context(), func(db admin.Database) error {
				list, more, err := readWorkers(cmd.Context(), db)
				if err != nil {
					return err
				}
				return a.writeWorkers(list, more, jobs)
			})
		},
	}
	cmd.Flags().BoolVar(&jobs, "jobs", false, "list the jobs and for how long they are held, up to 20 for each")
	return cmd
}

// WorkerLine is a worker with what it holds.
type WorkerLine struct {
	dibs.WorkerInfo
	QueuesPaused bool       `json:"queues_paused"`
	Running      []heldJobs `json:"running"`
	registered   bool
}

// heldJobs are what a worker holds of one queue.
type heldJobs struct {
	Queue string  `json:"queue"`
	Jobs  int     `json:"jobs"`
	IDs   []int64 `json:"ids"` // the newest of them
	// Held are the same jobs, those first that have been held for longest.
	Held []holdups.HeldJob `json:"held"`
}

const (
	heldPage = 100    // jobs of one call: their payloads may be large
	heldMost = 10_000 // running jobs to look at
	heldIDs  = 100    // ids to list for a worker and queue
)

// readWorkers lists the workers, and then the other names that hold jobs. more is true if
// there are more running jobs than it has looked at.
func readWorkers(ctx context.Context, db admin.Database) (lines []WorkerLine, more bool, err error) {
	list, err := db.Workers(ctx)
	if err != nil {
		return nil, false, err
	}
	queues, err := db.Queues(ctx)
	if err != nil {
		return nil, false, err
	}
	paused := map[string]bool{}
	for _, q := range queues {
		paused[q.Name] = q.Paused
	}
	running, more, err := runningJobs(ctx, db)
	if err != nil {
		return nil, false, err
	}
	for _, w := range list {
		line := WorkerLine{WorkerInfo: w, registered: true, Running: running[w.Name]}
		line.QueuesPaused = !slices.ContainsFunc(w.Queues, func(q string) bool { return !paused[q] })
		lines = append(lines, line)
	}
	for name, holdings := range running {
		if !slices.ContainsFunc(list, func(w dibs.WorkerInfo) bool { return w.Name == name }) {
			lines = append(lines, WorkerLine{WorkerInfo: dibs.WorkerInfo{Name: name}, Running: holdings})
		}
	}
	slices.SortStableFunc(lines[len(list):], func(a, b WorkerLine) int { return cmp.Compare(a.Name, b.Name) })
	return lines, more, nil
}

// runningJobs groups the running jobs by worker and queue.
func runningJobs(ctx context.Context, db admin.Database) (byWorker map[string][]heldJobs, more bool, err error) {
	byWorker = map[string][]heldJobs{}
	f := admin.Filter{State: dibs.Running, Limit: heldPage}
	for range heldMost / heldPage {
		page, err := db.List(ctx, f)
		if err != nil {
			return nil, false, err
		}
		for _, j := range page.Jobs {
			list := byWorker[j.Worker]
			i := slices.IndexFunc(list, func(h heldJobs) bool { return h.Queue == j.Queue })
			if i < 0 {
				i, list = len(list), append(list, heldJobs{Queue: j.Queue})
			}
			if list[i].Jobs++; len(list[i].IDs) < heldIDs {
				list[i].IDs = append(list[i].IDs, j.ID)
				list[i].Held = append(list[i].Held, holdups.HeldJob{ID: j.ID, Kind: j.Kind, Worker: j.Worker, Since: j.ClaimedAt})
			}
			byWorker[j.Worker] = list
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	for _, list := range byWorker {
		slices.SortFunc(list, func(a, b heldJobs) int { return cmp.Compare(a.Queue, b.Queue) })
		for _, h := range list {
			slices.SortStableFunc(h.Held, longestFirst)
		}
	}
	return byWorker, f.After != "", nil
}

func (a *app) writeWorkers(lines []WorkerLine, more, jobs bool) error {
	if a.JSON {
		return term.WriteEach(&a.Terminal, lines, func(l WorkerLine) any { return workerJSONOf(l) })
	}
	if len(lines) == 0 {
		a.Say("no worker is there; 'dibs work QUEUE -- PROGRAM' starts one")
		return nil
	}
	headings := []string{"WORKER", "STATE", "QUEUES", "KINDS", "#RUNNING", "SINCE", "SEEN", "VERSION"}
	if jobs {
		headings = append(headings, "JOBS")
	}
	t := a.TableOf(headings...)
	now := time.Now()
	for _, l := range lines {
		row := []any{a.Cell(l.Name, 40), a.workerState(l), "-", "-", l.jobs(), "-", "-", "-"}
		if l.registered {
			kinds := "*"
			if l.Kinds != nil {
				kinds = a.Cell(strings.Join(l.Kinds, ", "), 24)
			}
			row = []any{
				a.Cell(l.Name, 40), a.workerState(l), a.Cell(strings.Join(l.Queues, ", "), 24), kinds, fmt.Sprintf("%d/%d", l.jobs(), l.Concurrency),
				words.Since(now, l.Since), words.Since(now, l.Seen), a.Cell(l.Version, 16),
			}
		}
		if jobs {
			row = append(row, a.heldJobs(&l, now))
		}
		t.AppendRow(row)
	}
	t.Render()
	if more {
		a.Say("\nmore than %s jobs are running; only the newest are counted here", words.Count(heldMost))
	}
	return nil
}

func (a *app) workerState(l WorkerLine) string {
	switch {
	case !l.registered:
		return "-"
	case l.State == dibs.WorkerLost:
		return a.Paint(term.Red, l.State)
	case l.State == dibs.WorkerWorking && l.QueuesPaused:
		return a.Paint(term.Yellow, "queue paused")
	case l.State != dibs.WorkerWorking:
		return a.Paint(term.Yellow, words.Printable(l.State))
	}
	return l.State
}

func (l *WorkerLine) jobs() (n int) {
	for _, h := range l.Running {
		n += h.Jobs
	}
	return n
}

func longestFirst(a, b holdups.HeldJob) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
}

// heldJobs lists the jobs that a worker holds, with their kinds and for how long: those first that it
// has held for longest.
func (a *app) heldJobs(l *WorkerLine, now time.Time) string {
	const most = 20
	var all []holdups.HeldJob
	for _, h := range l.Running {
		all = append(all, h.Held...)
	}
	slices.SortStableFunc(all, longestFirst)
	var lines []string
	for _, j := range all[:min(len(all), most)] {
		lines = append(lines, fmt.Sprintf("%d %s for %s", j.ID, a.Cell(j.Kind, 24), words.Roughly(now.Sub(j.Since))))
	}
	if n := l.jobs(); n > most {
		lines = append(lines, fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(lines, "\n")
}

// workerJSONOf is a worker with lists in place of null. Only a name that is no worker has no id.
func workerJSONOf(l WorkerLine) any {
	if l.Running == nil {
		l.Running = []heldJobs{}
	}
	if l.registered {
		return l
	}
	return struct {
		Name    string     `json:"name"`
		Running []heldJobs `json:"running"`
	}{l.Name, l.Running}
}
