package sqlite_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/model"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// The ranks of locks, in the order in which a transaction takes them.
const (
	noLock = iota // reads, appends rows, or passes over rows that are locked
	turnLock
	keyLock
	jobLock
	finishedLock
	claimLock
)

// ranks says for which lock each statement waits on a database in which others write meanwhile. Rows that an earlier
// statement of the transaction has locked, as held.sql and due_claims.sql do, are not waited for. Settings of queues and
// groups are left out: they are changed by operators, one row at a time.
var ranks = map[string]int{
	"cancel": jobLock, "edit": jobLock, "replace": jobLock, "live": jobLock, "free_key": jobLock, "count_claimed": jobLock,
	"ended": finishedLock, "remove_finished": finishedLock,
	"check_earlier": claimLock, "drop_claim": claimLock,
}

// recorder notes the locks that each transaction of a store waits for.
type recorder struct {
	seen  map[string]bool
	locks []string // of the open transaction
	last  int
	wrong []string
	turns map[rowstore.Turn]bool // those that the open transaction has; false: it shares them
	keys  map[rowstore.UniqueKey]bool
}

func (r *recorder) begin() {
	r.locks, r.last, r.turns, r.keys = nil, 0, map[rowstore.Turn]bool{}, map[rowstore.UniqueKey]bool{}
}

func (r *recorder) lock(what string, rank int) {
	if rank == noLock {
		return
	}
	r.locks = append(r.locks, what)
	if rank < r.last {
		r.wrong = append(r.wrong, fmt.Sprintf("locks in the order %s", strings.Join(r.locks, ", ")))
	}
	r.last = max(r.last, rank)
}

// needs says which turn a statement may only run in.
var needsTurn = map[string]rowstore.Turn{
	"running": rowstore.TurnClaim, "limits_set": rowstore.TurnClaim, "count_running": rowstore.TurnClaim, "drop_limits_set": rowstore.TurnClaim, "admit": rowstore.TurnAdmit, "displace": rowstore.TurnAdmit, "starts": rowstore.TurnAdmit,
	"tally_rows": rowstore.TurnSweep, "repairable": rowstore.TurnSweep, "drop_folded": rowstore.TurnSweep, "drop_rates": rowstore.TurnSweep, "drop_windows": rowstore.TurnSweep,
	"drop_wakes": rowstore.TurnAdmit, "group": rowstore.TurnAdmit, "hold": rowstore.TurnAdmit,
	"schedules_due": rowstore.TurnTicks, "schedule_ticked": rowstore.TurnTicks, "set_schedule": rowstore.TurnTicks, "delete_schedule": rowstore.TurnTicks,
	"drop_queue": rowstore.TurnQueue, "queue_uses": rowstore.TurnQueue,
}

// needsShare says which turn a statement may only run in or in a share of.
var needsShare = map[string]rowstore.Turn{
	"claim": rowstore.TurnClaim, "claim_rated": rowstore.TurnClaim,
	"enqueue": rowstore.TurnQueue, "enqueue_many": rowstore.TurnQueue, "enqueue_alike": rowstore.TurnQueue,
	"set_group": rowstore.TurnQueue, "set_group_rate": rowstore.TurnQueue,
}

// Transactions wait for locks in one order, count and give only in their turns, and look for unique keys that they have
// locked.
func TestLocksAreTakenInOneOrder(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	r := &recorder{seen: map[string]bool{}}
	c.turns.Taken = func(_ *rowstore.Session, turn rowstore.Turn, shared bool) error {
		r.lock("the turn to "+string(turn), turnLock)
		r.turns[turn] = r.turns[turn] || !shared
		return nil
	}
	c.turns.Locked = func(keys []rowstore.UniqueKey) {
		if !slices.IsSortedFunc(keys, func(a, b rowstore.UniqueKey) int {
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Key, b.Key))
		}) {
			r.wrong = append(r.wrong, fmt.Sprintf("keys in the order %v", keys))
		}
		r.lock("keys", keyLock)
		for _, k := range keys {
			r.keys[k] = true
		}
	}
	rows := c.Watched(t.Context(), r.begin, func(name string, args []any, _ func(string) error) error {
		r.seen[name] = true
		r.lock(name, ranks[name])
		if turn := needsTurn[name]; turn != "" && !r.turns[turn] {
			r.wrong = append(r.wrong, name+" without the turn to "+string(turn))
		}
		if turn := needsShare[name]; turn != "" {
			if _, ok := r.turns[turn]; !ok {
				r.wrong = append(r.wrong, name+" without a share of the turn to "+string(turn))
			}
		}
		if name == "holder" && !r.keys[rowstore.UniqueKey{Queue: args[0].(string), Key: args[1].(string)}] {
			r.wrong = append(r.wrong, fmt.Sprintf("the key %v is looked at without its lock", args[1]))
		}
		return nil
	})
	r.begin()
	exercise(t, rows, func(d time.Duration) error { return model.PassInFile(t.Context(), c.DB(), d) })
	slices.Sort(r.wrong)
	for _, w := range slices.Compact(r.wrong) {
		t.Error(w)
	}
	for _, names := range []iter.Seq[string]{maps.Keys(ranks), maps.Keys(needsTurn), maps.Keys(needsShare)} {
		for name := range names {
			if !r.seen[name] {
				t.Errorf("%s.sql was not run", name)
			}
		}
	}
}

// exercise makes calls of all verbs that write. pass lets time pass.
func exercise(t *testing.T, s *rowstore.Store, pass func(time.Duration) error) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	claim := func(queue string, n int) []*dibs.RawJob {
		t.Helper()
		jobs, err := s.Claim(ctx, dibs.ClaimRequest{Queue: queue, Worker: "w", N: n, Lease: time.Minute})
		must(err)
		if len(jobs) < n {
			t.Fatalf("%d jobs of %s claimed, want %d", len(jobs), queue, n)
		}
		return jobs
	}
	enqueue := func(jobs ...dibs.NewJob) []dibs.Enqueued {
		t.Helper()
		done, err := s.Enqueue(ctx, jobs)
		must(err)
		return done
	}
	for queue, change := range map[string]dibs.QueueChange{"plain": {}, "limited": {Concurrency: new(20), Rate: &dibs.Rate{N: 100, Per: time.Second, Burst: 100}}, "strict": {Strict: new(true), GroupRate: &dibs.Rate{N: 100, Per: time.Second, Burst: 100}}} {
		_, err := s.SetQueue(ctx, queue, change)
		must(err)
		for i := range 12 {
			enqueue(dibs.NewJob{Queue: queue, Kind: "k", Group: []string{"", "g", "h"}[i%3], Priority: new(i)},
				dibs.NewJob{Queue: queue, Kind: "k", UniqueKey: fmt.Sprint(12 - i), UniqueUntil: []dibs.UniqueUntil{dibs.UntilClaimed, dibs.UntilFinished}[i%2]})
		}
		enqueue(dibs.NewJob{Queue: queue, Kind: "k", Priority: new(0), UniqueKey: "first", UniqueUntil: dibs.UntilFinished})
		enqueue(dibs.NewJob{Queue: queue, Kind: "k", UniqueKey: "z", UniqueUntil: dibs.UntilFinished}, dibs.NewJob{Queue: queue, Kind: "k", UniqueKey: "a", UniqueUntil: dibs.UntilFinished})
		jobs := claim(queue, 8)
		_, err = s.Extend(ctx, []dibs.Lease{jobs[0].Lease(), jobs[1].Lease()}, time.Hour)
		must(err)
		_, err = s.Extend(ctx, []dibs.Lease{jobs[6].Lease(), jobs[7].Lease()}, 30*time.Second)
		must(err)
		must(s.Finish(ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil), jobs[1].Lease().Complete([]byte("1")), jobs[2].Lease().Die("e"), jobs[3].Lease().Retry("e"), jobs[4].Lease().Release(), jobs[5].Lease().Cancel("e")}))
		_, err = s.Requeue(ctx, []int64{jobs[0].ID, jobs[1].ID, jobs[2].ID, jobs[5].ID})
		must(err)
		resumed, err := s.Resume(ctx, dibs.ClaimRequest{Queue: queue, Worker: "w"})
		must(err)
		if len(resumed) == 0 { // a queue with rates
			resumed = jobs[6:]
		}
		must(s.Finish(ctx, []dibs.Outcome{resumed[0].Lease().Die("e")}))
		_, err = s.DeleteEnded(ctx, []int64{resumed[0].ID}, time.Time{})
		must(err)
		waiting := enqueue(dibs.NewJob{Queue: queue, Kind: "k", UniqueKey: "held", UniqueUntil: dibs.UntilFinished, Delay: time.Hour}, dibs.NewJob{Queue: queue, Kind: "k", Delay: time.Hour})
		enqueue(dibs.NewJob{Queue: queue, Kind: "k", UniqueKey: "held", UniqueUntil: dibs.UntilFinished, IfHeld: dibs.HeldReplace})
		_, err = s.Edit(ctx, []int64{waiting[0].ID, waiting[1].ID}, dibs.Edit{Priority: new(3)})
		must(err)
		_, _, err = s.Cancel(ctx, []int64{waiting[1].ID, waiting[0].ID, resumed[1%len(resumed)].ID})
		must(err)
	}
	must(s.SetSchedules(ctx, "o", []dibs.Schedule{{Name: "s", Spec: "@every 1s", Queue: "plain", Kind: "k"}}))
	must(pass(2 * time.Second))
	must(s.Tick(ctx))
	must(s.DeleteSchedule(ctx, "s"))
	must(exerciseQueues(ctx, s))
	for _, d := range []time.Duration{2 * time.Minute, 2 * time.Hour} { // some leases have ended, then all
		must(pass(d))
		_, err := s.Sweep(ctx)
		must(err)
	}
}

// exerciseQueues fills a queue, has a job lose its place in another one, and makes and deletes a third.
func exerciseQueues(ctx context.Context, s *rowstore.Store) error {
	_, err := s.Enqueue(ctx, slices.Repeat([]dibs.NewJob{{Queue: "many", Kind: "k"}}, rowstore.AlikeAtOnce+rowstore.ManyAtOnce))
	for _, priority := range []int{5, 0} { // the second takes the first one's place
		_, failed := s.Enqueue(ctx, []dibs.NewJob{{Queue: "better", Kind: "k", Group: "g", Priority: &priority}})
		_, unswept := s.Sweep(ctx)
		err = cmp.Or(err, failed, unswept)
	}
	err = cmp.Or(err, s.SetGroup(ctx, "gone", "g", dibs.GroupChange{Limit: new(2), Rate: &dibs.Rate{N: 1, Per: time.Second}}))
	_, unrepaired := s.Repair(ctx)
	return cmp.Or(err, unrepaired, s.DeleteQueue(ctx, "gone", true))
}
