// Package holdups tells why due jobs do not start.
package holdups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/words"
)

// Hold is one reason why due jobs of a queue do not start.
type Hold struct {
	Queue string `json:"queue,omitempty"` // set only if the reader could not tell which queue is meant
	// Reason is "paused", "no_worker", "stopping", "no_worker_for_kind", "limit", "busy", "hanging", "rate", "group",
	// "after" or "attempts".
	Reason string    `json:"reason"`
	Kinds  []string  `json:"kinds,omitempty"` // for no_worker_for_kind: the kinds that no worker handles
	Held   []HeldJob `json:"held,omitempty"`  // for hanging: jobs that run for long, longest first
	Text   string    `json:"text"`
	Short  string    `json:"-"` // Text in a few words, for a column

	OfSome bool   `json:"-"` // the reason holds up only some groups of the queue, or only jobs that come after others
	By     string `json:"-"` // for busy: the other queue whose jobs hold most places
}

// Plain is the text without a command of dibs that it may end in.
func (h Hold) Plain() string {
	text, _, _ := strings.Cut(h.Text, "; 'dibs ")
	return text
}

// Reader reads what the reasons depend on.
type Reader interface {
	Queues(ctx context.Context, names ...string) ([]dibs.Queue, error)
	Workers(ctx context.Context) ([]dibs.WorkerInfo, error)
	DueKinds(ctx context.Context, queue string) ([]string, error)
	Followers(ctx context.Context, queue string) (int, error)
	HangReader
}

// Look explains why due jobs of queues do not start. It is cheap however many jobs wait: it
// reads the register of workers, the settings, and the kinds of a queue's first 1,000 jobs.
type Look struct {
	Seen
	kinds map[string][]string // the kinds of due jobs by queue, read only if they matter
	hangs map[string]Hang
	after map[string]int64 // how many blocked jobs of a queue come after others, as far as they were counted
}

// Seen is what a database says of its queues and workers.
type Seen struct {
	Stats   []admin.QueueStats
	Queues  []dibs.Queue
	Workers []dibs.WorkerInfo
	Flow    admin.Flow // the jobs around one job, where somebody has read them
}

// kindsOfQueues is the number of queues for which one look reads the kinds of due jobs.
const kindsOfQueues = 20

// Read reads what explains why jobs of these queues wait. Where none do, it reads nothing.
// On an adopted table, and without the right to read the register, it knows nothing.
func Read(ctx context.Context, db any, stats []admin.QueueStats) (Look, error) {
	reader, ok := db.(Reader)
	if !ok || !slices.ContainsFunc(stats, held) {
		return Look{}, nil
	}
	w, err := read(ctx, reader, stats)
	if errors.Is(err, dibs.ErrDenied) {
		return Look{}, nil
	}
	return w, err
}

func read(ctx context.Context, reader Reader, stats []admin.QueueStats) (w Look, err error) {
	w.Stats, w.kinds, w.after = stats, map[string][]string{}, map[string]int64{}
	if w.Queues, err = reader.Queues(ctx); err != nil {
		return w, err
	}
	if w.Workers, err = reader.Workers(ctx); err != nil {
		return w, err
	}
	for _, s := range stats {
		if live, _ := w.workersOf(s.Queue); !held(s) || len(live) == 0 || slices.ContainsFunc(live, takesAll) || len(w.kinds) == kindsOfQueues {
			continue
		}
		if w.kinds[s.Queue], err = reader.DueKinds(ctx, s.Queue); err != nil {
			return w, err
		}
	}
	for _, s := range stats {
		if s.Blocked == 0 || len(w.after) == kindsOfQueues {
			continue
		}
		n, err := reader.Followers(ctx, s.Queue)
		if err != nil {
			return w, err
		}
		w.after[s.Queue] = int64(n)
	}
	w.hangs, err = Hanging(ctx, reader, w.Seen, false)
	return w, err
}

// held reports whether there may be jobs that should run and do not. Due and blocked jobs may
// be such, and also running ones, since their worker may be lost.
func held(s admin.QueueStats) bool { return Due(s) > 0 || s.Blocked > 0 || s.Running > 0 }

// Due counts the due jobs, or 1 if they cannot be counted.
func Due(s admin.QueueStats) int64 {
	if s.ScheduledMore {
		return min(1, int64(s.OldestAge))
	}
	return s.Waiting - s.Scheduled
}

// takesAll reports whether a worker takes all kinds.
func takesAll(w dibs.WorkerInfo) bool { return w.Kinds == nil }

// workersOf lists the live workers of a queue, and the lost ones.
func (w *Seen) workersOf(queue string) (live, lost []dibs.WorkerInfo) {
	for _, each := range w.Workers {
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

// Rate is the rate of a queue, as far as it is known.
func (w *Look) Rate(queue string) dibs.Rate { return w.settings(queue).Rate }

// GroupRate is the rate that the groups of a queue have from it.
func (w *Look) GroupRate(queue string) dibs.Rate { return w.settings(queue).GroupRate }

func (w *Look) settings(queue string) dibs.Queue {
	i := slices.IndexFunc(w.Queues, func(q dibs.Queue) bool { return q.Name == queue })
	if i < 0 {
		return dibs.Queue{}
	}
	return w.Queues[i]
}

// Of lists why one queue's jobs do not start. What holds up only jobs of some groups comes last.
func (w *Look) Of(s admin.QueueStats) (list []Hold) {
	i := slices.IndexFunc(w.Queues, func(q dibs.Queue) bool { return q.Name == s.Queue })
	if !held(s) || i < 0 {
		return nil
	}
	add := func(h Hold) { list = append(list, h) }
	if Due(s) == 0 && s.Blocked == 0 {
		if live, lost := w.workersOf(s.Queue); len(live) == 0 && len(lost) > 0 {
			w.workerHolds(s, add)
		}
		w.hanging(s.Queue, add)
		return list
	}
	if s.Paused {
		add(Hold{Reason: "paused", Short: "paused", Text: fmt.Sprintf("the queue is paused; '%s' lets it go on", words.Command("dibs resume", s.Queue))})
	}
	w.workerHolds(s, add)
	if q := w.Queues[i]; q.Concurrency > 0 && s.Running >= int64(q.Concurrency) {
		add(Hold{Reason: "limit", Short: "at its limit", Text: fmt.Sprintf("the queue's limit of %s at once is reached", words.Plural(q.Concurrency, "job"))})
	}
	w.hanging(s.Queue, add)
	if text := Held(s.HeldUntil); text != "" {
		add(Hold{Reason: "rate", Short: text, Text: "the queue is " + text})
	}
	or := ""
	if s.HeldGroups > 0 {
		or = " or for its rate"
		add(Hold{Reason: "rate", Short: "groups held by rate", Text: fmt.Sprintf("%s; '%s' lists them", words.Verb(s.HeldGroups, "group is held by its rate", "groups are held by their rates"), words.Command("dibs queue", s.Queue)), OfSome: true})
	}
	after, turns := w.blocked(s)
	if after > 0 {
		more := ""
		if after == admin.FollowersCap {
			more = "at least "
		}
		add(Hold{Reason: "after", Short: "after other jobs", Text: more + words.Verb(after, "job comes after others that have not ended", "jobs come after others that have not ended"), OfSome: true})
	}
	if turns > 0 {
		add(Hold{Reason: "group", Short: "turn of group", Text: words.Verb(turns, "job waits for its turn in its group", "jobs wait for their turns in their groups") + or + unclaimed(s), OfSome: true})
	}
	return list
}

// blocked counts the blocked jobs of a queue that come after others, and those that wait for their turns in their groups.
func (w *Look) blocked(s admin.QueueStats) (after, turns int64) {
	after = min(w.after[s.Queue], s.Blocked)
	if after == admin.FollowersCap { // there may be more
		return after, 0
	}
	return after, s.Blocked - after
}

// hanging adds, as a reason, the jobs of a queue that hang.
func (w *Look) hanging(queue string, add func(Hold)) {
	if h, is := w.hangs[queue]; is {
		add(Hold{Reason: "hanging", Held: h.Jobs, Short: "none ends", Text: h.Text()})
	}
}

// unclaimed says, if it is so, that blocked jobs wait for no other job, since none of the queue
// runs or waits: the next claim gives the free places.
func unclaimed(s admin.QueueStats) string {
	if s.Running > 0 || s.Waiting > 0 || s.HeldGroups > 0 {
		return ""
	}
	return "; no job of the queue runs, and claims give the turns"
}

// workerHolds adds the reasons that have to do with the workers of a queue.
func (w *Look) workerHolds(s admin.QueueStats, add func(Hold)) {
	live, lost := w.workersOf(s.Queue)
	stopping := len(live)
	live = slices.DeleteFunc(live, func(each dibs.WorkerInfo) bool { return each.State == dibs.WorkerStopping })
	stopping -= len(live)
	switch {
	case len(live) > 0:
	case stopping > 0:
		add(Hold{Reason: "stopping", Short: "no worker", Text: fmt.Sprintf("%s and claim nothing more; no other works the queue", words.Verb(int64(stopping), "worker is stopping", "workers are stopping"))})
		return
	case len(lost) > 0:
		last := slices.MaxFunc(lost, func(a, b dibs.WorkerInfo) int { return a.Seen.Compare(b.Seen) })
		add(Hold{Reason: "no_worker", Short: "no worker", Text: fmt.Sprintf("no worker is registered for the queue: %s was last seen %s", words.Clip(words.Printable(last.Name), 60), words.Since(time.Now(), last.Seen))})
		return
	case s.Running > 0 || s.Claimed > 0: // 'dibs claim' claims the jobs, or a program without a Worker
		return
	default:
		add(Hold{Reason: "no_worker", Short: "no worker", Text: fmt.Sprintf("no worker is registered for the queue; '%s' starts one", words.StartWorker(s.Queue))})
		return
	}
	if Due(s) == 0 {
		return
	}
	if kinds := w.unhandled(s.Queue, live); len(kinds) > 0 {
		add(Hold{Reason: "no_worker_for_kind", Kinds: kinds, Short: "unhandled kind " + words.Clip(words.OneLine(kinds[0]), 20), Text: fmt.Sprintf("no worker of the queue handles %s", kindNames(kinds))})
	}
	if places, used, most := w.places(live); used >= places {
		h := Hold{Reason: "busy", Short: "workers busy", Text: fmt.Sprintf("all places of its workers are taken (%s, %s)", words.Plural(len(live), "worker"), words.Plural(int(places), "place"))}
		if most.Queue != s.Queue {
			h.By, h.Text = most.Queue, h.Text+fmt.Sprintf(", %s of them by queue %s", words.Count(min(most.Running, places)), words.Clip(words.Printable(most.Queue), 60))
		}
		add(h)
	}
}

// unhandled lists the kinds of due jobs that none of these workers handles.
func (w *Look) unhandled(queue string, live []dibs.WorkerInfo) []string {
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
		names = append(names, words.Clip(words.OneLine(k), 40))
	}
	text += strings.Join(names, ", ")
	if more := len(kinds) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// places counts the places of these workers, how many places jobs of their queues use, and which of
// these queues uses most.
func (w *Seen) places(live []dibs.WorkerInfo) (places, used int64, most admin.QueueStats) {
	served := map[string]bool{}
	for _, each := range live {
		places += int64(each.Concurrency)
		for _, q := range each.Queues {
			served[q] = true
		}
	}
	for _, s := range w.Stats {
		if !served[s.Queue] {
			continue
		}
		if used += s.Running; s.Running > most.Running {
			most = s
		}
	}
	return places, used, most
}

// OfJob lists the reasons why one job does not start.
func (w *Look) OfJob(j *dibs.RawJob) (list []Hold) {
	i := slices.IndexFunc(w.Stats, func(s admin.QueueStats) bool { return s.Queue == j.Queue })
	if i < 0 || j.State != dibs.Waiting && j.State != dibs.Blocked {
		return nil
	}
	if w.kinds[j.Queue] != nil {
		w.kinds[j.Queue] = []string{j.Kind}
	}
	for _, h := range w.Of(w.Stats[i]) {
		if !h.OfSome && (j.WaitsFor == 0 || h.Lasts()) {
			list = append(list, h)
		}
	}
	if j.WaitsFor > 0 {
		return append([]Hold{Follows(j, w.Flow)}, list...)
	}
	paced := Held(j.HeldUntil)
	switch {
	case j.Group != "" && paced != "" && Held(w.Stats[i].HeldUntil) == "":
		list = append(list, Hold{Reason: "rate", Text: "its group is " + paced})
	case j.State == dibs.Blocked && j.Group == "":
		list = append(list, Hold{Reason: "after", Text: "the jobs that it comes after have ended just now"})
	case j.State == dibs.Blocked:
		list = append(list, Hold{Reason: "group", Text: fmt.Sprintf("it waits for its turn in its group (%d at a time)", j.GroupLimit) + unclaimed(w.Stats[i])})
	}
	return list
}

// lasting are the reasons that hold up a job also once those that it comes after have ended.
var lasting = []string{"paused", "no_worker", "stopping", "no_worker_for_kind"}

// Lasts reports whether the reason holds up a job until somebody starts a worker or resumes the queue.
func (h Hold) Lasts() bool { return slices.Contains(lasting, h.Reason) }

// Follows is the reason why a job that comes after others does not start. It names some of them if f is of the job.
func Follows(j *dibs.RawJob, f admin.Flow) Hold {
	text := "it comes after " + words.Verb(int64(j.WaitsFor), "job that has not ended", "jobs that have not ended")
	if open := f.Open; f.ID == j.ID && len(open) > 0 {
		ids := make([]string, len(open))
		for i, id := range open {
			ids[i] = strconv.FormatInt(id, 10) + ends[f.Needs[i]]
		}
		if text += ": " + strings.Join(ids, ", "); j.WaitsFor > len(open) {
			text += " …"
		}
	}
	return Hold{Reason: "after", Text: text}
}

// ends say how a job that is waited for has to end.
var ends = map[dibs.Need]string{dibs.NeedEnded: " (however it ends)", dibs.NeedFailed: " (only if it is dead or cancelled)"}

// UsedUp is the reason why a row of an adopted table that waits is not claimed: other programs have counted its last attempt.
func UsedUp(j *dibs.RawJob) (h Hold, is bool) {
	if j.State != dibs.Waiting || j.MaxAttempts == 0 || j.Attempt-j.Excused < j.MaxAttempts {
		return h, false
	}
	return Hold{Reason: "attempts", Text: fmt.Sprintf("its attempts are used up (%d of %d), so no claim takes it: the next sweep of a worker of dibs ends it as dead", j.Attempt-j.Excused, j.MaxAttempts)}, true
}

// InQueues lists the reasons of some queues, with the names of these.
func (w *Look) InQueues(stats []admin.QueueStats) (list []Hold) {
	for _, s := range stats {
		for _, h := range w.Of(s) {
			h.Queue = s.Queue
			list = append(list, h)
		}
	}
	return list
}

// Held says how much longer a rate holds jobs up, or nothing if it does not.
func Held(until time.Time) string {
	if wait := time.Until(until); wait > 0 {
		return "held by rate for " + words.Roughly(wait)
	}
	return ""
}
