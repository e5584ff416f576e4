package why_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/why"
)

// history is a queue whose last attempt ended a while ago, with running jobs.
type history struct {
	ended time.Duration // zero: none within the history
	ran   []time.Duration
	lists int
}

func (h *history) History(_ context.Context, queues []string, since time.Duration) (list []dibs.Minute, err error) {
	now := time.Now().Truncate(time.Minute)
	for at := now.Add(-since); !at.After(now); at = at.Add(time.Minute) {
		for _, q := range queues {
			m := dibs.Minute{Queue: q, At: at}
			if h.ended > 0 && at.Equal(time.Now().Add(-h.ended).Truncate(time.Minute)) {
				m.Failed = 1
			}
			list = append(list, m)
		}
	}
	return list, nil
}

func (h *history) List(_ context.Context, f dibs.Filter) (page dibs.Page, err error) {
	h.lists++
	for i, ran := range h.ran {
		page.Jobs = append(page.Jobs, &dibs.RawJob{ID: int64(i + 1), Kind: "k", Queue: f.Queue, Worker: "w", ClaimedAt: time.Now().Add(-ran)})
	}
	return page, nil
}

func TestJobsHangWhereOthersWaitAndNoAttemptEnds(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	for name, c := range map[string]struct {
		h       history
		waiting int64
		timeout time.Duration
		want    string // "": they do not hang
		hasty   bool
		lists   int
	}{
		"an attempt has just ended":                  {h: history{time.Second, []time.Duration{9 * m}, 0}, waiting: 1},
		"nothing waits":                              {h: history{0, []time.Duration{9 * m}, 0}},
		"they have just begun":                       {h: history{0, []time.Duration{m / 2}, 0}, waiting: 1, lists: 1},
		"none has ended since":                       {h: history{0, []time.Duration{3 * m, 9 * m}, 0}, waiting: 1, want: "worker w has held job 2 (k) for 9m, worker w has held job 1 (k) for 3m; no attempt of the queue has ended since", lists: 1},
		"none has ended for hours":                   {h: history{0, []time.Duration{300 * m}, 0}, waiting: 1, want: "worker w has held job 1 (k) for 5h; no attempt of the queue has ended since", lists: 1},
		"some have ended since":                      {h: history{30 * m, []time.Duration{60 * m}, 0}, waiting: 1, want: "worker w has held job 1 (k) for 60m; no attempt of the queue has ended for ", lists: 1},
		"within the queue's timeout":                 {h: history{time.Second, []time.Duration{9 * m}, 0}, timeout: 10 * m, lists: 1},
		"after the queue's timeout, in a hasty look": {h: history{time.Second, []time.Duration{9 * m, m}, 0}, timeout: 5 * m, hasty: true},
		"after the queue's timeout, nothing waits":   {h: history{time.Second, []time.Duration{9 * m, m}, 0}, timeout: 5 * m, want: "worker w has held job 1 (k) for 9m; the queue's timeout of 5m is over, and its handlers do not heed that", lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stats := []dibs.QueueStats{{Queue: "q", Waiting: c.waiting, Running: int64(len(c.h.ran))}, {Queue: "idle", Waiting: 5}}
			found, err := why.Hanging(t.Context(), &c.h, stats, []dibs.Queue{{Name: "q", JobTimeout: c.timeout}}, !c.hasty)
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
