package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/words"
)

// Hang tells that the jobs of a queue do not get on: others wait, and no attempt has ended while the
// longest of those that run did, or attempts go on after their queue's timeout.
type Hang struct {
	Jobs    []HeldJob
	More    int64         // running jobs that are not among them
	Idle    time.Duration // how long the first of Jobs has run without that any other attempt has ended, at least
	Since   bool          // none has ended since the first of Jobs was claimed
	Ignored time.Duration // the queue's timeout, which the handlers of Jobs do not heed; 0: they may just be slow
}

// HeldJob is a job that a worker holds.
type HeldJob struct {
	ID     int64     `json:"id"`
	Kind   string    `json:"kind"`
	Worker string    `json:"worker"`
	Since  time.Time `json:"since"` // when it was claimed
}

const (
	hangAfter = time.Minute // how long no attempt must have ended, and one must have run
	heldRead  = 300         // how many running jobs of a queue are read, the newest
	heldPage  = 100         // how many of them in one call: their payloads may be large
	heldSaid  = 5           // how many are named
	// endedWithin is how far back Hanging looks for ends of attempts at first: in most queues there are some.
	endedWithin = 10 * time.Minute
)

// HangReader reads what tells whether jobs hang.
type HangReader interface {
	History(ctx context.Context, queues []string, since time.Duration) ([]dibs.Minute, error)
	List(ctx context.Context, f dibs.Filter) (dibs.Page, error)
}

// Hanging finds the queues whose jobs do not get on. It reads nothing unless some run while others
// wait, or their queue has a timeout; and the running jobs only where no attempt has ended for a
// minute, or if thorough of all queues with a timeout: one handler may ignore that while others end.
func Hanging(ctx context.Context, db HangReader, stats []dibs.QueueStats, queues []dibs.Queue, thorough bool) (map[string]Hang, error) {
	var look []dibs.QueueStats
	var names []string
	limits := map[string]dibs.Queue{}
	for _, q := range queues {
		limits[q.Name] = q
	}
	for _, s := range stats {
		if s.Running > 0 && (Due(s) > 0 || s.Blocked > 0 || limits[s.Queue].JobTimeout > 0) && len(look) < kindsOfQueues {
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
		if h, is := hangOf(s, q, jobs, idle, now); is {
			found[s.Queue] = h
		}
	}
	return found, nil
}

// hangOf judges the running jobs of a queue, the longest first.
func hangOf(s dibs.QueueStats, q dibs.Queue, jobs []HeldJob, idle time.Duration, now time.Time) (h Hang, is bool) {
	if limit := q.JobTimeout; limit > 0 { // workers learn of it by a third of a lease, and their handlers may take a while to end
		over := slices.DeleteFunc(slices.Clone(jobs), func(j HeldJob) bool { return now.Sub(j.Since) < limit+max(q.Lease, hangAfter) })
		if len(over) > 0 {
			return Hang{Jobs: over[:min(len(over), heldSaid)], More: int64(max(len(over)-heldSaid, 0)), Idle: now.Sub(over[0].Since), Ignored: limit}, true
		}
	}
	if Due(s) == 0 && s.Blocked == 0 || idle < hangAfter || len(jobs) == 0 || now.Sub(jobs[0].Since) < hangAfter {
		return h, false
	}
	said, ran := jobs[:min(len(jobs), heldSaid)], now.Sub(jobs[0].Since)
	return Hang{Jobs: said, More: s.Running - int64(len(said)), Idle: min(idle, ran), Since: idle >= ran}, true
}

// lastEnds is when an attempt of each queue has last ended: the end of the minute in which it did.
// Where none has in the last minutes, it looks back as far as the history reaches.
func lastEnds(ctx context.Context, db HangReader, queues []string) (map[string]time.Time, error) {
	last := map[string]time.Time{}
	for _, since := range []time.Duration{endedWithin, dibs.HistoryKept} {
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

// longest lists the jobs of a queue that run, those first that have been held for longest.
func longest(ctx context.Context, db HangReader, s dibs.QueueStats) (jobs []HeldJob, err error) {
	f := dibs.Filter{Queue: s.Queue, State: dibs.Running}
	for most := min(s.Running, heldRead); int64(len(jobs)) < most; {
		f.Limit = int(min(most-int64(len(jobs)), heldPage))
		page, err := db.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, j := range page.Jobs {
			jobs = append(jobs, HeldJob{j.ID, j.Kind, j.Worker, j.ClaimedAt})
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
	for _, j := range h.Jobs {
		held = append(held, fmt.Sprintf("worker %s has held job %d (%s) for %s", words.Clip(words.Printable(j.Worker), 60), j.ID, words.Clip(words.OneLine(j.Kind), 40), words.Roughly(now.Sub(j.Since))))
	}
	text := strings.Join(held, ", ")
	if h.More > 0 {
		text += " and " + words.Verb(h.More, "other job is running", "other jobs are running")
	}
	switch {
	case h.Ignored > 0:
		return text + fmt.Sprintf("; the queue's timeout of %s is over, and its handlers do not heed that: only the end of their processes ends them", words.Roughly(h.Ignored))
	case h.Since:
		return text + "; no attempt of the queue has ended since"
	}
	return text + "; no attempt of the queue has ended for " + words.Roughly(h.Idle)
}
