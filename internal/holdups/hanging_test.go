package holdups_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/holdups"
)

// history is a queue whose last attempt ended a while ago, with running jobs.
type history struct {
	ended time.Duration // how long ago the last attempt ended; zero: none has in the history
	ran   []time.Duration
	lists int
	took  time.Duration // how long 95 % of the completed jobs took at most; zero: none has completed
}

func (h *history) History(_ context.Context, queues []string, since time.Duration) (list []admin.Minute, err error) {
	now := time.Now().Truncate(time.Minute)
	for at := now.Add(-since); !at.After(now); at = at.Add(time.Minute) {
		for _, q := range queues {
			m := admin.Minute{Queue: q, At: at}
			if h.ended > 0 && at.Equal(time.Now().Add(-h.ended).Truncate(time.Minute)) {
				m.Failed = 1
			}
			list = append(list, m)
		}
	}
	return list, nil
}

func (h *history) List(_ context.Context, f admin.Filter) (page admin.Page, err error) {
	h.lists++
	for i, ran := range h.ran {
		page.Jobs = append(page.Jobs, &dibs.RawJob{ID: int64(i + 1), Kind: "k", Queue: f.Queue, Worker: "w", ClaimedAt: time.Now().Add(-ran)})
	}
	return page, nil
}

func (h *history) Times(context.Context, string) (times admin.Times, err error) {
	if h.took > 0 {
		times.Jobs, times.Run.P95 = 1, h.took
	}
	return times, nil
}

func TestJobsHangWhereOthersWaitAndNoAttemptEnds(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	for name, c := range map[string]struct {
		h       history
		waiting int64
		timeout time.Duration
		want    string // the sentence about the jobs; empty: they do not hang
		hasty   bool
		lists   int
	}{
		"an attempt has just ended":                  {h: history{time.Second, []time.Duration{9 * m}, 0, 0}, waiting: 1},
		"nothing waits":                              {h: history{0, []time.Duration{9 * m}, 0, 0}},
		"they have just begun":                       {h: history{0, []time.Duration{m / 2}, 0, 0}, waiting: 1, lists: 1},
		"none has ended since":                       {h: history{0, []time.Duration{3 * m, 9 * m}, 0, 0}, waiting: 1, want: "worker w has held job 2 (k) for 9m, job 1 (k) for 3m; no attempt of the queue has ended since", lists: 1},
		"none has ended for hours":                   {h: history{0, []time.Duration{300 * m}, 0, 0}, waiting: 1, want: "worker w has held job 1 (k) for 5h; no attempt of the queue has ended since", lists: 1},
		"some have ended since":                      {h: history{30 * m, []time.Duration{60 * m}, 0, 0}, waiting: 1, want: "worker w has held job 1 (k) for 60m; no attempt of the queue has ended for ", lists: 1},
		"within the queue's timeout":                 {h: history{time.Second, []time.Duration{9 * m}, 0, 0}, timeout: 10 * m, lists: 1},
		"after the queue's timeout, in a hasty look": {h: history{time.Second, []time.Duration{9 * m, m}, 0, 0}, timeout: 5 * m, hasty: true},
		"after the queue's timeout, nothing waits":   {h: history{time.Second, []time.Duration{9 * m, m}, 0, 0}, timeout: 5 * m, want: "worker w has held job 1 (k) for 9m; the queue's timeout of 5m is over, and its handlers do not heed that", lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stats := []admin.QueueStats{{Queue: "q", Waiting: c.waiting, Running: int64(len(c.h.ran))}, {Queue: "idle", Waiting: 5}}
			found, err := holdups.Hanging(t.Context(), &c.h, holdups.Seen{Stats: stats, Queues: []dibs.Queue{{Name: "q", JobTimeout: c.timeout}}}, !c.hasty)
			if err != nil {
				t.Fatal(err)
			}
			h, is := found["q"]
			if is != (c.want != "") || is && !strings.HasPrefix(h.Text(), c.want) {
				t.Errorf("it hangs: %v, %q, want %q", is, h.Text(), c.want)
			}
			if c.h.lists != c.lists {
				t.Errorf("the running jobs were read %d times, want %d", c.h.lists, c.lists)
			}
		})
	}
}

// Attempts that run far longer than usual and hold all places of a queue are wrong before the others have waited for long.
func TestAllPlacesHeldForFarLongerThanUsualIsWrongSoon(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	for name, c := range map[string]struct {
		h     history
		limit int
		want  bool
	}{
		"far longer":                 {h: history{0, []time.Duration{2 * m, 3 * m}, 0, 2 * time.Second}, want: true},
		"about as long":              {h: history{0, []time.Duration{2 * m, 3 * m}, 0, 30 * time.Second}},
		"one has just begun":         {h: history{0, []time.Duration{time.Second, 3 * m}, 0, 2 * time.Second}},
		"a place is free":            {h: history{0, []time.Duration{3 * m}, 0, 2 * time.Second}},
		"the queue's limit is held":  {h: history{0, []time.Duration{3 * m}, 0, 2 * time.Second}, limit: 1, want: true},
		"nothing has completed ever": {h: history{0, []time.Duration{2 * m, 3 * m}, 0, 0}},
	} {
		seen := holdups.Seen{
			Stats:   []admin.QueueStats{{Queue: "q", Waiting: 1, Running: int64(len(c.h.ran))}},
			Queues:  []dibs.Queue{{Name: "q", Concurrency: c.limit}},
			Workers: []dibs.WorkerInfo{{Name: "w", PID: 7, Host: "h", Concurrency: 2, Queues: []string{"q"}, State: dibs.WorkerWorking}},
		}
		found, err := holdups.Hanging(t.Context(), &c.h, seen, true)
		h, is := found["q"]
		if err != nil || !is || h.Wrong(5*m) != c.want {
			t.Errorf("%s: it is wrong: %v, want %v (%+v, %v)", name, h.Wrong(5*m), c.want, h, err)
		}
		if text := h.Text(); strings.HasSuffix(text, ", and 95 % of its last completed jobs took at most 2.0s") != c.want || !strings.HasPrefix(text, "worker w (process 7 on h) has held job ") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A queue whose workers' places are all held by jobs of another queue does not hang: the other queue does.
func TestAQueueThatHoldsThePlacesOfAnotherHangs(t *testing.T) {
	t.Parallel()
	h := history{0, []time.Duration{3 * time.Minute}, 0, 0}
	seen := holdups.Seen{
		Stats:   []admin.QueueStats{{Queue: "slow", Running: 1}, {Queue: "starved", Waiting: 1}},
		Queues:  []dibs.Queue{{Name: "slow"}, {Name: "starved"}},
		Workers: []dibs.WorkerInfo{{Name: "w", Concurrency: 1, Queues: []string{"slow", "starved"}, State: dibs.WorkerWorking}},
	}
	found, err := holdups.Hanging(t.Context(), &h, seen, true)
	if _, is := found["slow"]; err != nil || !is || len(found) != 1 {
		t.Errorf("these hang: %+v, %v", found, err)
	}
	look := holdups.Look{Seen: seen}
	holds := look.InQueues(seen.Stats)
	if len(holds) != 1 || holds[0].By != "slow" || holds[0].Text != "all places of its workers are taken (1 worker, 1 place), 1 of them by queue slow" {
		t.Errorf("it does not start since %+v", holds)
	}
	seen.Workers[0].Concurrency = 2
	if found, err := holdups.Hanging(t.Context(), &h, seen, true); err != nil || len(found) > 0 {
		t.Errorf("with a free place, these hang: %+v, %v", found, err)
	}
}
