package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// hold is one reason why due jobs of a queue do not start.
type hold struct {
	Queue string `json:"queue,omitempty"` // where it is not clear of which queue
	// Reason is "paused", "no_worker", "stopping", "no_worker_for_kind", "limit", "busy", "rate" or "group".
	Reason string   `json:"reason"`
	Kinds  []string `json:"kinds,omitempty"` // the kinds that nobody handles, for no_worker_for_kind
	Text   string   `json:"text"`
	short  string   // for a column

	ofGroups bool // it concerns some groups of the queue
}

// holder reads what the reasons depend on.
type holder interface {
	Queues(ctx context.Context) ([]dibs.Queue, error)
	Workers(ctx context.Context) ([]dibs.WorkerInfo, error)
	DueKinds(ctx context.Context, queue string) ([]string, error)
}

// why explains why due jobs of queues do not start. It is cheap however many jobs wait: it
// reads the register of workers, the settings, and the kinds of a queue's first 1,000 jobs.
type why struct {
	queues  []dibs.Queue
	stats   []dibs.QueueStats
	workers []dibs.WorkerInfo
	kinds   map[string][]string // the kinds of due jobs by queue, only where they matter
}

// kindsOfQueues is in how many queues a look reads the kinds of due jobs.
const kindsOfQueues = 20

// lookWhy reads what explains why jobs of these queues wait. Where none do, it reads nothing.
// On an adopted table, and without the right to read the register, it knows nothing.
func lookWhy(ctx context.Context, db any, stats []dibs.QueueStats) (why, error) {
	read, ok := db.(holder)
	if !ok || !slices.ContainsFunc(stats, held) {
		return why{}, nil
	}
	w, err := readWhy(ctx, read, stats)
	if errors.Is(err, dibs.ErrDenied) {
		return why{}, nil
	}
	return w, err
}

func readWhy(ctx context.Context, read holder, stats []dibs.QueueStats) (w why, err error) {
	w.stats, w.kinds = stats, map[string][]string{}
	if w.queues, err = read.Queues(ctx); err != nil {
		return w, err
	}
	if w.workers, err = read.Workers(ctx); err != nil {
		return w, err
	}
	for _, s := range stats {
		if live, _ := w.workersOf(s.Queue); !held(s) || len(live) == 0 || slices.ContainsFunc(live, takesAll) || len(w.kinds) == kindsOfQueues {
			continue
		}
		if w.kinds[s.Queue], err = read.DueKinds(ctx, s.Queue); err != nil {
			return w, err
		}
	}
	return w, nil
}

// held reports whether there may be jobs that should run and do not: those that are due or
// blocked, and those that count as running, since their worker may have been lost.
func held(s dibs.QueueStats) bool { return due(s) > 0 || s.Blocked > 0 || s.Running > 0 }

// due counts the due jobs, or 1 if they cannot be counted.
func due(s dibs.QueueStats) int64 {
	if s.ScheduledMore {
		return min(1, int64(s.OldestAge))
	}
	return s.Waiting - s.Scheduled
}

// takesAll reports whether a worker takes all kinds.
func takesAll(w dibs.WorkerInfo) bool { return w.Kinds == nil }

// workersOf lists the live workers of a queue, and the lost ones.
func (w *why) workersOf(queue string) (live, lost []dibs.WorkerInfo) {
	for _, each := range w.workers {
		switch {
		case !slices.Contains(each.Queues, queue):
		case each.State == dibs.WorkerLost:
			lost = append(lost, each)
		default:
			live = append(live, each)
		}
	}
	return live, lost
}

// of lists why one queue's jobs do not start. What holds up only jobs of some groups comes last.
func (w *why) of(s dibs.QueueStats) (list []hold) {
	i := slices.IndexFunc(w.queues, func(q dibs.Queue) bool { return q.Name == s.Queue })
	if !held(s) || i < 0 {
		return nil
	}
	add := func(h hold) { list = append(list, h) }
	if due(s) == 0 && s.Blocked == 0 {
		if live, lost := w.workersOf(s.Queue); len(live) == 0 && len(lost) > 0 {
			w.workerHolds(s, add)
		}
		return list
	}
	word := shellWord(s.Queue)
	if s.Paused {
		add(hold{Reason: "paused", short: "paused", Text: fmt.Sprintf("the queue is paused; 'dibs resume %s' lets it go on", word)})
	}
	w.workerHolds(s, add)
	if q := w.queues[i]; q.Concurrency > 0 && s.Running >= int64(q.Concurrency) {
		add(hold{Reason: "limit", short: "at its limit", Text: fmt.Sprintf("the queue's limit of %s at once is reached", plural(q.Concurrency, "job"))})
	}
	if text := heldText(s.HeldUntil); text != "" {
		add(hold{Reason: "rate", short: text, Text: "the queue is " + text})
	}
	or := ""
	if s.HeldGroups > 0 {
		or = " or for its rate"
		add(hold{Reason: "rate", short: "groups held by rate", Text: fmt.Sprintf("%s; 'dibs queue %s' lists them", verb(s.HeldGroups, "group is held by its rate", "groups are held by their rates"), word), ofGroups: true})
	}
	if s.Blocked > 0 {
		add(hold{Reason: "group", short: "groups at limit", Text: fmt.Sprintf("%s for others of the same group%s", verb(s.Blocked, "job waits", "jobs wait"), or), ofGroups: true})
	}
	return list
}

// workerHolds adds the reasons that lie in the workers of a queue.
func (w *why) workerHolds(s dibs.QueueStats, add func(hold)) {
	live, lost := w.workersOf(s.Queue)
	stopping := len(live)
	live = slices.DeleteFunc(live, func(each dibs.WorkerInfo) bool { return each.State == dibs.WorkerStopping })
	stopping -= len(live)
	switch {
	case len(live) > 0:
	case stopping > 0:
		add(hold{Reason: "stopping", short: "no worker", Text: fmt.Sprintf("%s and claim nothing more; no other works the queue", verb(int64(stopping), "worker is stopping", "workers are stopping"))})
		return
	case len(lost) > 0:
		last := slices.MaxFunc(lost, func(a, b dibs.WorkerInfo) int { return a.Seen.Compare(b.Seen) })
		add(hold{Reason: "no_worker", short: "no worker", Text: fmt.Sprintf("nobody works the queue: worker %s was last seen %s", clip(printable(last.Name), 60), since(time.Now(), last.Seen))})
		return
	case s.Running > 0 || s.Claimed > 0: // 'dibs claim' takes them, or a program without a Worker
		return
	default:
		add(hold{Reason: "no_worker", short: "no worker", Text: fmt.Sprintf("nobody works the queue; 'dibs work %s -- PROGRAM' does", shellWord(s.Queue))})
		return
	}
	if due(s) == 0 {
		return
	}
	if kinds := w.unhandled(s.Queue, live); len(kinds) > 0 {
		add(hold{Reason: "no_worker_for_kind", Kinds: kinds, short: "unhandled kind " + clip(oneLine(kinds[0]), 20), Text: fmt.Sprintf("no worker of the queue handles %s", kindNames(kinds))})
	}
	if places, used := w.places(live); used >= places {
		add(hold{Reason: "busy", short: "workers busy", Text: fmt.Sprintf("all places of its workers are taken (%s, %s)", plural(len(live), "worker"), plural(int(places), "place"))})
	}
}

// unhandled lists the kinds of due jobs that none of these workers handles.
func (w *why) unhandled(queue string, live []dibs.WorkerInfo) []string {
	if slices.ContainsFunc(live, takesAll) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.kinds[queue]), func(kind string) bool {
		return slices.ContainsFunc(live, func(each dibs.WorkerInfo) bool { return slices.Contains(each.Kinds, kind) })
	})
}

// kindNames names up to three kinds.
func kindNames(kinds []string) string {
	const most = 3
	text := "kind "
	if len(kinds) > 1 {
		text = "kinds "
	}
	var names []string
	for _, k := range kinds[:min(len(kinds), most)] {
		names = append(names, clip(oneLine(k), 40))
	}
	text += strings.Join(names, ", ")
	if more := len(kinds) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// places counts the places of workers, and how many of them the queues that these serve use.
func (w *why) places(live []dibs.WorkerInfo) (places, used int64) {
	for _, each := range live {
		places += int64(each.Concurrency)
	}
	for _, s := range w.stats {
		if slices.ContainsFunc(live, func(each dibs.WorkerInfo) bool { return slices.Contains(each.Queues, s.Queue) }) {
			used += s.Running
		}
	}
	return places, used
}

// verb formats "1 job waits" or "5 jobs wait".
func verb(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + more
}

// ofJob lists the reasons why one job does not start.
func (w *why) ofJob(j *dibs.RawJob) (list []hold) {
	i := slices.IndexFunc(w.stats, func(s dibs.QueueStats) bool { return s.Queue == j.Queue })
	if i < 0 || j.State != dibs.Waiting && j.State != dibs.Blocked {
		return nil
	}
	if w.kinds[j.Queue] != nil {
		w.kinds[j.Queue] = []string{j.Kind}
	}
	for _, h := range w.of(w.stats[i]) {
		if !h.ofGroups {
			list = append(list, h)
		}
	}
	paced := heldText(j.HeldUntil)
	switch {
	case j.Group != "" && paced != "" && heldText(w.stats[i].HeldUntil) == "":
		list = append(list, hold{Reason: "rate", Text: "its group is " + paced})
	case j.State == dibs.Blocked:
		list = append(list, hold{Reason: "group", Text: fmt.Sprintf("it waits for others of its group (%d at a time)", j.GroupLimit)})
	}
	return list
}

// whyOf is lookWhy for the queues of some jobs: of those that wait, if their start has come.
func whyOf(ctx context.Context, db jobTable, jobs ...*dibs.RawJob) (w why, stats []dibs.QueueStats, err error) {
	_, own := db.(holder)
	waits := func(j *dibs.RawJob) bool {
		return j.State == dibs.Blocked || j.State == dibs.Waiting && !j.RunAt.After(time.Now())
	}
	if !own || !slices.ContainsFunc(jobs, waits) {
		return w, nil, nil
	}
	all, err := db.Stats(ctx)
	if err != nil {
		return w, nil, err
	}
	for _, s := range all {
		if slices.ContainsFunc(jobs, func(j *dibs.RawJob) bool { return j.Queue == s.Queue && waits(j) }) {
			stats = append(stats, s)
		}
	}
	w, err = lookWhy(ctx, db, stats)
	w.stats = all
	return w, stats, err
}

// inQueues lists the reasons of some queues, with the names of these.
func (w *why) inQueues(stats []dibs.QueueStats) (list []hold) {
	for _, s := range stats {
		for _, h := range w.of(s) {
			h.Queue = s.Queue
			list = append(list, h)
		}
	}
	return list
}

// writeWhy prints the reasons of some queues below a list.
func (a *app) writeWhy(w *why, stats []dibs.QueueStats) {
	const most = 10
	holds := w.inQueues(stats)
	if len(holds) > 0 {
		fmt.Fprintln(a.stdout)
	}
	for _, h := range holds[:min(len(holds), most)] {
		a.say("%s %s", a.paint(yellow, a.cell(h.Queue, 30)+":"), h.Text)
	}
	if more := len(holds) - most; more > 0 {
		a.say("and %d more; see 'dibs stats --json'", more)
	}
}
