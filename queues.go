package dibs

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// WorkQueue is one of the queues that a [Worker] serves.
type WorkQueue struct {
	Name string
	// Weight is the queue's share of the jobs that the worker starts, 1 to 1000. 0 stands for
	// 1 if another queue has a weight; see Worker.Queues.
	Weight int
	// Max is how many of the worker's handlers may be busy with jobs of the queue; 0: all.
	Max int
}

const (
	maxQueues = 100
	maxWeight = 1000
)

// checkQueues checks the queues of a worker, and fills in their defaults.
func (w *Worker) checkQueues() error {
	if len(w.Queues) == 0 {
		if w.Queue == "" {
			w.Queue = DefaultQueue
		}
		w.Queues = []WorkQueue{{Name: w.Queue}}
		return nil
	}
	if w.Queue != "" {
		return &InvalidError{"worker.queues", fmt.Sprintf("and worker.queue (%q) are both given; name that queue among the queues", w.Queue)}
	}
	if len(w.Queues) > maxQueues {
		return &InvalidError{"worker.queues", fmt.Sprintf("names %d queues, the limit is %d", len(w.Queues), maxQueues)}
	}
	w.Queues = slices.Clone(w.Queues)
	seen := make(map[string]bool, len(w.Queues))
	for i := range w.Queues {
		q, field := &w.Queues[i], fmt.Sprintf("worker.queues[%d]", i)
		switch {
		case q.Name == "":
			return &InvalidError{field + ".name", "is missing"}
		case seen[q.Name]:
			return &InvalidError{field + ".name", fmt.Sprintf("%q is named twice", q.Name)}
		case q.Weight < 0 || q.Weight > maxWeight:
			return &InvalidError{field + ".weight", fmt.Sprintf("must be 1 to %d, or 0, got %d", maxWeight, q.Weight)}
		case q.Max < 0:
			return &InvalidError{field + ".max", fmt.Sprintf("must not be negative, got %d", q.Max)}
		}
		seen[q.Name] = true
	}
	return nil
}

// checkKinds refuses a worker that serves none of the queues to which the jobs of its kinds go.
func (w *Worker) checkKinds() error {
	elsewhere, n := w.unserved(), 0
	var where []string
	for _, queue := range slices.Sorted(maps.Keys(elsewhere)) {
		n += len(elsewhere[queue])
		where = append(where, fmt.Sprintf("of kind %q to %q", elsewhere[queue][0], queue))
	}
	if n == 0 || n < len(w.handlers) {
		return nil
	}
	return &InvalidError{"worker.queue", fmt.Sprintf("is %q, but the jobs of all its kinds go to other queues: %s; name these queues", w.Queues[0].Name, strings.Join(where[:min(len(where), 3)], ", "))}
}

// unserved are the kinds whose options name a queue that the worker does not serve, by that queue.
func (w *Worker) unserved() map[string][]string {
	kinds := make(map[string][]string)
	for _, kind := range slices.Sorted(maps.Keys(w.handlers)) {
		queue := w.handlers[kind].Queue
		if queue != "" && !slices.ContainsFunc(w.Queues, func(q WorkQueue) bool { return q.Name == queue }) {
			kinds[queue] = append(kinds[queue], kind)
		}
	}
	return kinds
}

// feed is a queue of a running worker. The worker claims from one at a time.
type feed struct {
	WorkQueue
	resume   bool      // its next claim is the Resume
	claimNow bool      // a claim may find jobs right now
	gotAll   bool      // its last claim gave all that was requested
	sent     time.Time // when its last claim was sent
	// started is the number of jobs that it gave, divided by its weight. Of the queues that
	// have jobs, the one with the least is next.
	started float64
	woken   atomic.Bool // a wakeup has come; set where the worker has several queues
}

// feeds are the queues of a running worker.
type feeds struct {
	all      []*feed
	weighted bool            // the queues have weights; otherwise their order is strict
	started  float64         // the lowest feed.started of the queues that had jobs at the last choice
	wake     <-chan struct{} // receives when one of the queues may have jobs
}

func (w *Worker) feeds() (f feeds) {
	for _, q := range w.Queues {
		f.weighted = f.weighted || q.Weight > 0
		f.all = append(f.all, &feed{WorkQueue: q, resume: w.Resume})
	}
	for _, q := range f.all {
		q.Weight = max(q.Weight, 1)
	}
	return f
}

// listen has the worker woken by all of its queues. With several, a goroutine for each notes
// which queue it was.
func (r *run) listen() (stop func()) {
	if len(r.feeds.all) == 1 {
		r.feeds.wake, stop = r.Store.Wakeups(r.feeds.all[0].Name)
		return stop
	}
	bell := make(chan struct{}, 1)
	r.feeds.wake = bell
	var stops []func()
	for _, q := range r.feeds.all {
		wake, stop := r.Store.Wakeups(q.Name)
		stops = append(stops, stop)
		r.underway.Go(func() {
			for open := true; open; {
				select {
				case _, open = <-wake:
				case <-r.over:
					return
				}
				q.woken.Store(true)
				select {
				case bell <- struct{}{}:
				default: // the worker has not taken the last one yet
				}
			}
		})
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// heard notes which queues have woken the worker.
func (r *run) heard(open bool) {
	if !open {
		r.feeds.wake = nil // the store is closed
	}
	for _, q := range r.feeds.all {
		if len(r.feeds.all) == 1 || q.woken.Swap(false) {
			q.claimNow = true
		}
	}
}

// lookNow has the worker look for jobs soon, in whichever queue they are.
func (r *run) lookNow(now time.Time) {
	if len(r.feeds.all) == 1 {
		r.feeds.all[0].claimNow = true
	}
	r.claims.pollAt = now
}

// next is the queue to claim from, for how many of n jobs, and from when on. No queue stands
// for asking which queues have due jobs, which is one call for all of them; n is 0 while no
// queue can give any.
func (r *run) next(now time.Time, n int) (*feed, int, time.Time) {
	if q := r.feeds.all[0]; len(r.feeds.all) == 1 {
		at := r.claims.pollAt
		if q.claimNow || q.resume {
			at = now
		}
		return q, min(n, r.places(q)), at
	}
	quiet := false
	var open []*feed
	for _, q := range r.feeds.all {
		switch {
		case q.resume:
			return q, n, now
		case r.places(q) <= 0:
		case q.claimNow:
			open = append(open, q)
		default:
			quiet = true
		}
	}
	switch {
	case quiet && (len(open) == 0 || !now.Before(r.claims.pollAt)):
		return nil, n, r.claims.pollAt
	case len(open) == 0:
		return nil, 0, now
	case r.feeds.weighted:
		n = r.share(open, n)
	}
	return open[0], min(n, r.places(open[0])), now
}

// quiet are the names of the queues of which the worker does not know that they have jobs.
func (r *run) quiet() (names []string) {
	for _, q := range r.feeds.all {
		if !q.claimNow {
			names = append(names, q.Name)
		}
	}
	return names
}

// looked notes which queues have due jobs.
func (r *run) looked(due []string, now time.Time) {
	for _, q := range r.feeds.all {
		q.claimNow = q.claimNow || slices.Contains(due, q.Name)
	}
	r.putOffPoll(now)
}

// places is how many more jobs of a queue the worker may hold, started or claimed ahead.
func (r *run) places(q *feed) int {
	if q.Max == 0 {
		return math.MaxInt
	}
	n := q.Max
	for h := range r.attempts.running {
		if h.feed == q {
			n--
		}
	}
	for _, h := range r.ahead.jobs {
		if h.feed == q {
			n--
		}
	}
	return n
}

// share puts that queue first which has had least of its share, and returns how many of n jobs
// bring it level with the others, if these give the rest. A queue does not get later what it
// has missed while it had no jobs, or no places.
func (r *run) share(open []*feed, n int) int {
	for _, q := range open {
		q.started = max(q.started, r.feeds.started)
	}
	slices.SortStableFunc(open, func(a, b *feed) int { return cmp.Compare(a.started, b.started) })
	r.feeds.started = open[0].started
	level, weights, sum := math.Inf(1), 0.0, float64(n)
	for _, q := range open {
		if q.started >= level {
			break
		}
		weights += float64(q.Weight)
		sum += float64(q.Weight) * q.started
		level = sum / weights
	}
	part := math.Ceil(float64(open[0].Weight)*(level-open[0].started) - 1e-6) // the sums are not exact
	return min(n, max(1, int(part)))
}
