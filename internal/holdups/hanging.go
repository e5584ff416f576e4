package holdups

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/words"
)

// Hang tells that the jobs of a queue do not get on: others wait, and no attempt has ended while the
// longest of those that run did, or attempts go on after their queue's timeout.
type Hang struct {
	Jobs    []HeldJob
	More    int64         // how many more jobs run than are listed in Jobs
	Last    int64         // how many running jobs are in their last attempt, among those that were read
	Idle    time.Duration // how long, at least, the first of Jobs has run while no other attempt has ended
	Since   bool          // no attempt has ended since the first of Jobs was claimed
	Ignored time.Duration // the queue's timeout, which the handlers of Jobs ignore; 0: they may just be slow
	// Usual, if not zero, says that all places are held by attempts that run for far longer than usual: of the last
	// completed jobs, 95 % took no longer than Usual.
	Usual time.Duration
}

// HeldJob is a job that a worker holds.
type HeldJob struct {
	ID     int64     `json:"id"`
	Kind   string    `json:"kind"`
	Worker string    `json:"worker"`
	PID    int       `json:"pid,omitempty"`  // the worker's process, if it is registered
	Host   string    `json:"host,omitempty"` // the worker's machine, if it is registered
	Since  time.Time `json:"since"`          // when the job was claimed
	last   bool      // the job is in its last attempt
}

const (
	hangAfter = time.Minute // jobs hang if one has run this long, and no attempt has ended for this long
	heldRead  = 300         // how many running jobs of a queue are read, newest first
	heldPage  = 100         // how many jobs one call reads: their payloads may be large
	heldSaid  = 5           // how many jobs are named
	// farLonger is how many times as long as usual each attempt must have run if they hold all places.
	farLonger = 10
	// endedWithin is how far back Hanging first looks for ends of attempts: in most queues that finds some.
	endedWithin = 10 * time.Minute
)

// HangReader reads what tells whether jobs hang.
type HangReader interface {
	History(ctx context.Context, queues []string, since time.Duration) ([]admin.Minute, error)
	List(ctx context.Context, f admin.Filter) (admin.Page, error)
	Times(ctx context.Context, queue string) (admin.Times, error)
}

// Hanging finds the queues whose jobs do not get on. It reads nothing unless some run while others
// wait, or their queue has a timeout; and the running jobs only where no attempt has ended for a
// minute, or if thorough of all queues with a timeout: one handler may ignore that while others end.
func Hanging(ctx context.Context, db HangReader, seen Seen, thorough bool) (map[string]Hang, error) {
	var look []admin.QueueStats
	var names []string
	limits := map[string]dibs.Queue{}
	for _, q := range seen.Queues {
		limits[q.Name] = q
	}
	starved := seen.starved()
	for _, s := range seen.Stats {
		if s.Running > 0 && (waits(s) || starved[s.Queue] || limits[s.Queue].JobTimeout > 0) && len(look) < kindsOfQueues {
			look, names = append(look, s), append(names, s.Queue)
		}
	}
	if len(look) == 0 {
		return nil, nil
	}
	now := time.Now()
	ended, err := lastEnds(ctx, db, names)
	if err != nil {
		return nil, err
	}
	found := map[string]Hang{}
	for _, s := range look {
		idle, q := now.Sub(ended[s.Queue]), limits[s.Queue]
		if idle < hangAfter && (q.JobTimeout == 0 || !thorough) {
			continue
		}
		jobs, err := longest(ctx, db, s)
		if err != nil {
			return nil, err
		}
		seen.place(jobs)
		h, is := hangOf(q, jobs, idle, now, waits(s) || starved[s.Queue])
		if !is {
			continue
		}
		if h.Ignored == 0 {
			h.More = s.Running - int64(len(h.Jobs))
			if h.Usual, err = seen.farLonger(ctx, db, s, q, jobs, now); err != nil {
				return nil, err
			}
		}
		found[s.Queue] = h
	}
	return found, nil
}

// waits reports whether jobs of a queue wait for others to end.
func waits(s admin.QueueStats) bool { return Due(s) > 0 || s.Blocked > 0 }

// starved lists queues without a running job, whose jobs wait for places that jobs of another queue hold.
func (k *Seen) starved() map[string]bool {
	by, looked := map[string]bool{}, 0
	for _, s := range k.Stats {
		if s.Running > 0 || s.Paused || Due(s) == 0 {
			continue
		}
		if looked++; looked > kindsOfQueues {
			break
		}
		live, _ := k.workersOf(s.Queue)
		if places, used, _ := k.places(live); len(live) == 0 || used < places {
			continue
		}
		for _, w := range live {
			for _, q := range w.Queues {
				by[q] = true
			}
		}
	}
	return by
}

// place adds to jobs the process and the machine of their worker, if only one live worker has that name.
func (k *Seen) place(jobs []HeldJob) {
	named := map[string][]dibs.WorkerInfo{}
	for _, w := range k.Workers {
		if w.State != dibs.WorkerLost {
			named[w.Name] = append(named[w.Name], w)
		}
	}
	for i := range jobs {
		if list := named[jobs[i].Worker]; len(list) == 1 {
			jobs[i].PID, jobs[i].Host = list[0].PID, list[0].Host
		}
	}
}

// farLonger returns how long the last completed jobs of a queue took, if its running jobs hold all of its places and
// each has run for far longer; otherwise 0.
func (k *Seen) farLonger(ctx context.Context, db HangReader, s admin.QueueStats, q dibs.Queue, jobs []HeldJob, now time.Time) (time.Duration, error) {
	live, _ := k.workersOf(s.Queue)
	places, _, _ := k.places(live)
	full := len(live) > 0 && s.Running >= places || q.Concurrency > 0 && s.Running >= int64(q.Concurrency)
	newest := now.Sub(jobs[len(jobs)-1].Since)
	if !full || newest < hangAfter {
		return 0, nil
	}
	times, err := db.Times(ctx, s.Queue)
	if err != nil || times.Jobs == 0 || newest < farLonger*times.Run.P95 {
		return 0, err
	}
	return max(times.Run.P95, time.Microsecond), nil
}

// hangOf decides whether a queue's running jobs, longest first, hang.
func hangOf(q dibs.Queue, jobs []HeldJob, idle time.Duration, now time.Time, needed bool) (h Hang, is bool) {
	if limit := q.JobTimeout; limit > 0 { // workers notice a timeout when they extend, after a third of a lease, and handlers may take a while to end
		over := slices.DeleteFunc(slices.Clone(jobs), func(j HeldJob) bool { return now.Sub(j.Since) < limit+max(q.Lease, hangAfter) })
		if len(over) > 0 {
			return Hang{Jobs: over[:min(len(over), heldSaid)], More: int64(max(len(over)-heldSaid, 0)), Idle: now.Sub(over[0].Since), Ignored: limit}, true
		}
	}
	if !needed || idle < hangAfter || len(jobs) == 0 || now.Sub(jobs[0].Since) < hangAfter {
		return h, false
	}
	for _, j := range jobs {
		if j.last {
			h.Last++
		}
	}
	ran := now.Sub(jobs[0].Since)
	h.Jobs, h.Idle, h.Since = jobs[:min(len(jobs), heldSaid)], min(idle, ran), idle >= ran
	return h, true
}

// lastEnds returns when an attempt of each queue has last ended: the end of that minute. If none
// has ended in the last minutes, it looks back as far as the history reaches.
func lastEnds(ctx context.Context, db HangReader, queues []string) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	for _, since := range []time.Duration{endedWithin, admin.HistoryKept} {
		queues = slices.DeleteFunc(slices.Clone(queues), func(q string) bool { return !last[q].IsZero() })
		if len(queues) == 0 {
			break
		}
		minutes, err := db.History(ctx, queues, since)
		if err != nil {
			return nil, err
		}
		for _, m := range minutes {
			if m.Succeeded+m.Failed > 0 {
				last[m.Queue] = m.At.Add(time.Minute)
			}
		}
	}
	return last, nil
}

// longest lists the running jobs of a queue; those that were claimed first come first.
func longest(ctx context.Context, db HangReader, s admin.QueueStats) (jobs []HeldJob, err error) {
	f := admin.Filter{Queue: s.Queue, State: dibs.Running}
	for most := min(s.Running, heldRead); int64(len(jobs)) < most; {
		f.Limit = int(min(most-int64(len(jobs)), heldPage))
		page, err := db.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, j := range page.Jobs {
			jobs = append(jobs, HeldJob{ID: j.ID, Kind: j.Kind, Worker: j.Worker, Since: j.ClaimedAt, last: j.MaxAttempts > 0 && j.Attempt-j.Excused >= j.MaxAttempts})
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	slices.SortStableFunc(jobs, func(a, b HeldJob) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return jobs, nil
}

// Text says who holds which jobs for how long.
func (h Hang) Text() string {
	now := time.Now()
	var held []string
	for i, j := range h.Jobs {
		job := fmt.Sprintf("job %d (%s) for %s", j.ID, words.Clip(words.OneLine(j.Kind), 40), words.Roughly(now.Sub(j.Since)))
		if i > 0 && j.Worker == h.Jobs[i-1].Worker {
			held = append(held, job)
			continue
		}
		where := ""
		if j.PID > 0 {
			where = fmt.Sprintf(" (process %d on %s)", j.PID, words.Clip(words.Printable(j.Host), 60))
		}
		held = append(held, fmt.Sprintf("worker %s%s has held %s", words.Clip(words.Printable(j.Worker), 60), where, job))
	}
	text := strings.Join(held, ", ")
	if h.More > 0 {
		text += " and " + words.Verb(h.More, "other job is running", "other jobs are running")
	}
	switch {
	case h.Ignored > 0:
		return text + fmt.Sprintf("; the queue's timeout of %s is over, and its handlers do not heed that: only the end of their processes ends them", words.Roughly(h.Ignored))
	case h.Since:
		text += "; no attempt of the queue has ended since"
	default:
		text += "; no attempt of the queue has ended for " + words.Roughly(h.Idle)
	}
	if h.Usual > 0 {
		text += ", and 95 % of its last completed jobs took at most " + words.Roughly(h.Usual)
	}
	return text
}

// Wrong reports whether somebody should look now: after a time without an end, or sooner where it is sure that the
// attempts do not run as usual.
func (h Hang) Wrong(after time.Duration) bool { return h.Idle >= after || h.Ignored > 0 || h.Usual > 0 }

// Price says what a timeout costs, where Next proposes one.
func (h Hang) Price() string {
	if h.Ignored > 0 {
		return ""
	}
	price := "a timeout ends these attempts, and each of them counts"
	switch {
	case h.Last == 1:
		price += ": 1 job has no other attempt left and would be dead"
	case h.Last > 1:
		price += fmt.Sprintf(": %s jobs have no other attempt left and would be dead", words.Count(h.Last))
	}
	return price
}

// Next is the command that ends the first of the attempts: only the end of its process ends one that does not heed its timeout.
func (h Hang) Next(queue string) string {
	switch {
	case h.Ignored == 0:
		return words.Command("dibs queue", queue, "--job-timeout DURATION")
	case h.Jobs[0].PID > 0:
		return fmt.Sprintf("kill %d # on %s", h.Jobs[0].PID, words.ShellWord(h.Jobs[0].Host))
	}
	return "dibs workers --jobs"
}
