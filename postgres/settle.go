package postgres

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-queue/dibs/internal/reads"
)

// What ends a job that others come after adds the job's id to the table ended_list, in the same statement. A
// settlement takes ids from there, closes the edges from these jobs, and lets followers go on that wait for nothing any
// more; followers that can never start are cancelled, and listed like all that end. One process settles at a time, in
// snapshots that it takes once it has the turn, so no end is seen by nobody: the last of two parents that end at once is
// the one that is settled last.
//
// The process that has ended a followed job settles, in a goroutine, after the commit. If it dies, a claim or a sweep of
// any other does, as clock_due.sql says that the list has rows.
const (
	settleJobs  = 5000 // ids that a round takes from the list, about
	settleEdges = 5000 // edges that a round closes
	settleWait  = 2 * time.Second
	settleFor   = time.Second                  // how long a sweep settles
	untilDone   = time.Duration(math.MaxInt64) // how long a goroutine does
	settleTries = 12                           // rounds of a goroutine without a result, with growing pauses; then it leaves the list to the sweep
)

// settler is the state of this process' goroutine that settles.
type settler struct {
	mu      sync.Mutex
	running chan struct{} // closed when the goroutine ends; nil: none runs
	seen    atomic.Bool   // this process has seen jobs with followers or steps: its finishes look for them at once
	again   bool          // jobs have ended since the goroutine began its last round

	released, cancelled atomic.Int64 // followers, since the store was opened
}

// settleSoon has a goroutine settle what has ended. It is called after the commit.
func (s *Store) settleSoon() {
	w := &s.sweeper.settler
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again = true; w.running != nil || s.closed.Err() != nil {
		return
	}
	w.running = make(chan struct{})
	s.goroutines.Add(1)
	go func() {
		defer s.goroutines.Done()
		s.keepSettling(s.closed)
	}()
}

// keepSettling settles until nobody has called settleSoon since.
func (s *Store) keepSettling(ctx context.Context) {
	w := &s.sweeper.settler
	for {
		w.mu.Lock()
		if !w.again || ctx.Err() != nil {
			close(w.running)
			w.running = nil
			w.mu.Unlock()
			return
		}
		w.again = false
		w.mu.Unlock()
		pause := time.Millisecond
		for range settleTries {
			done, err := s.settleRounds(ctx, s.upkeep, untilDone)
			if done || err != nil { // the sweep reports errors that last
				break
			}
			if sleep(ctx, pause) != nil {
				break
			}
			pause = min(2*pause, 100*time.Millisecond)
		}
	}
}

// wait waits until no goroutine settles, for some time.
func (w *settler) wait(most time.Duration) {
	w.mu.Lock()
	running := w.running
	w.mu.Unlock()
	if running == nil {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-running:
	case <-timer.C:
	}
}

// settle is the part of claims and sweeps that settles what no other process does. After that time it leaves the rest to
// settleSoon: the caller may have jobs whose leases end meanwhile.
func (s *Store) settle(ctx context.Context, most time.Duration) error {
	done, err := s.settleRounds(ctx, s.upkeep, most)
	if !done && err == nil {
		s.settleSoon()
	}
	return err
}

// settleRounds settles until the list is empty, another process has the turn, or all that is left is locked: then it is not
// done. It begins no round after that time.
func (s *Store) settleRounds(ctx context.Context, c conn, most time.Duration) (done bool, err error) {
	for began := time.Now(); ; {
		r, err := s.settleOnce(ctx, c)
		switch {
		case err != nil:
			return false, err
		case r.turn != "true":
			return !r.left, nil
		case r.taken == 0:
			return true, nil
		case r.locked > 0 && r.closed+r.released == 0, time.Since(began) >= most:
			return false, nil
		}
	}
}

// settled is what one round has done.
type settled struct {
	turn             string // "true" if this process had the turn
	left             bool   // the list had rows
	taken            int    // rows of the list
	locked           int    // jobs that were locked, and are looked at again
	closed, released int    // edges; followers
}

func (s *Store) settleOnce(ctx context.Context, c conn) (r settled, err error) {
	var locked [3]int
	var ended string
	queues := map[string]int{}
	var none string
	release := s.step("settle_release")
	release.begin = func() { clear(queues); locked[2] = 0 }
	release.row = func(scan reads.Scan) error {
		var queue *string
		var n, missed int
		err := scan(&queue, &n, &missed)
		if locked[2] += missed; queue != nil {
			queues[*queue] = n
		}
		return err
	}
	err = c.run(
		ctx, s.step("turn_sweep", s.settleKey()).into(&none),
		s.step("settle_take", settleJobs).into(&r.turn, &r.taken, &r.left, &locked[0], &none, &none, &none),
		s.step("settle_close", settleEdges).into(&r.closed, &none, &none, &none, &none),
		s.step("settle_end").into(&ended, &locked[1]),
		release,
	)
	if err != nil {
		return r, err
	}
	for queue, n := range queues {
		r.released += n
		s.Wake(queue)
	}
	r.locked = locked[0] + locked[1] + locked[2]
	r.closed -= locked[1] // they are open again: a row that somebody holds must not keep a settlement busy
	s.sweeper.settler.released.Add(int64(r.released))
	if ids := strings.Trim(ended, "{}"); ids != "" {
		s.sweeper.settler.cancelled.Add(int64(strings.Count(ids, ",") + 1))
		s.waits.Ended(func() (all []int64) {
			for text := range strings.SplitSeq(ids, ",") {
				if id, err := strconv.ParseInt(text, 10, 64); err == nil {
					all = append(all, id)
				}
			}
			return all
		})
	}
	return r, nil
}

func (s *Store) settleKey() int64 { return lockKey(s.o.schema(), "sweep", "settle") }

// withFollowers adds to an operator's statement what it does for jobs that come after others: a requeue puts back those that
// were cancelled because of the jobs requeued. look gets how many followers a settlement has to look at. It waits for the
// turn as long as that takes, but hardly for anything while it has it.
func (s *Store) withFollowers(name string, ids []int64, st step, look *int) []step {
	if name != "requeue" {
		return []step{st}
	}
	brief := finisher{lockWait: turnLockWait}
	return append([]step{s.step("turn_settle", s.settleKey())}, brief.steps(
		st,
		s.step("revive", ids).into(new(int), new(string)),
		s.step("reopen_edges", ids).into(look),
	)...)
}
