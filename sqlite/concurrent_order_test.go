package sqlite_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/model"
	"github.com/dibs-queue/dibs/internal/rowstore"
)

// locksJobs are the statements that lock jobs, live or finished. On a database in which others write meanwhile each passes over
// rows that others hold, which its text for that mode says: in whatever order transactions lock jobs, none waits for another.
var locksJobs = []string{
	"live", "held", "ended", "claim", "claim_rated", "claim_newest", "claim_rated_newest", "resume", "extend", "displace", "admit", "due", "count_running", "prune", "mend_leases",
}

// changesJobs are the statements that change jobs of the ids in their first parameters, which the transaction has locked before.
var changesJobs = []string{"cancel", "edit", "replace", "push", "give_back", "finish", "remove", "reopen", "remove_finished"}

// changesClaimed are the statements that change jobs which their transaction has just claimed.
var changesClaimed = []string{"free_key", "count_claimed"}

// The ranks of locks for which transactions wait: those of settings, then those of claims.
var ranks = map[string]int{
	"add_queue": 1, "set_queue": 1, "set_group": 1, "unset_group": 1, "set_group_rate": 1, "unset_group_rate": 1, "use_group_rates": 1, "set_group_rates": 1,
	"check_earlier": 2,
}

// recorder notes the locks that each transaction of a store takes.
type recorder struct {
	seen   map[string]bool
	waits  []string // what the open transaction has waited for
	last   int
	wrong  []string
	turns  map[rowstore.Turn]bool // turns of the open transaction; false: it shares the turn
	keys   map[rowstore.UniqueKey]bool
	locked map[int64]bool // jobs that the open transaction has locked
}

func (r *recorder) begin() {
	r.waits, r.last, r.turns, r.keys, r.locked = nil, 0, map[rowstore.Turn]bool{}, map[rowstore.UniqueKey]bool{}, map[int64]bool{}
}

func (r *recorder) complain(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// wait notes that a statement may wait for rows of its first parameter.
func (r *recorder) wait(name string, rank int, args []any) {
	if rank == 0 {
		return
	}
	r.waits = append(r.waits, fmt.Sprintf("%s %v", name, args[0]))
	if n := len(r.waits); rank < r.last || n > 1 && rank == r.last && r.waits[n-2] > r.waits[n-1] && strings.HasPrefix(r.waits[n-2], name+" ") {
		r.complain("waits in the order %s", strings.Join(r.waits, ", "))
	}
	r.last = max(r.last, rank)
}

// jobs notes which jobs a statement locks, and complains of jobs that it changes without a lock.
func (r *recorder) jobs(name string, args []any) {
	locks, changes := slices.Contains([]string{"live", "held", "ended"}, name), slices.Contains(changesJobs, name)
	if !locks && !changes {
		return
	}
	for _, id := range idsIn(args[0]) {
		if locks {
			r.locked[id] = true
		} else if !r.locked[id] {
			r.complain("%s changes job %d without its lock", name, id)
		}
	}
}

// idsIn are the ids of a statement's parameter: a number, or a JSON array of numbers or of objects with ids.
func idsIn(arg any) (ids []int64) {
	text, ok := arg.(string)
	if !ok {
		return []int64{arg.(int64)}
	}
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		panic(err)
	}
	for _, raw := range list {
		var row struct{ ID int64 }
		if json.Unmarshal(raw, &row.ID) != nil {
			_ = json.Unmarshal(raw, &row) // it is an object
		}
		ids = append(ids, row.ID)
	}
	return ids
}

// needsTurn says in which turn a statement must run.
var needsTurn = map[string]rowstore.Turn{
	"running": rowstore.TurnClaim, "limits_set": rowstore.TurnClaim, "count_running": rowstore.TurnClaim, "drop_limits_set": rowstore.TurnClaim, "admit": rowstore.TurnAdmit, "displace": rowstore.TurnAdmit, "starts": rowstore.TurnAdmit,
	"tally_rows": rowstore.TurnSweep, "repairable": rowstore.TurnSweep, "drop_folded": rowstore.TurnSweep, "drop_rates": rowstore.TurnSweep, "drop_windows": rowstore.TurnSweep,
	"drop_wakes": rowstore.TurnAdmit, "places": rowstore.TurnAdmit, "hold": rowstore.TurnAdmit,
	"schedules_due": rowstore.TurnTicks, "schedule_ticked": rowstore.TurnTicks, "set_schedule": rowstore.TurnTicks, "delete_schedule": rowstore.TurnTicks,
	"set_group": rowstore.TurnGroup, "unset_group": rowstore.TurnGroup, "set_group_rate": rowstore.TurnGroup, "unset_group_rate": rowstore.TurnGroup,
	"drop_queue": rowstore.TurnQueue, "queue_uses": rowstore.TurnQueue,
}

// needsShare says in which turn, or share of it, a statement must run.
var needsShare = map[string]rowstore.Turn{
	"claim": rowstore.TurnClaim, "claim_rated": rowstore.TurnClaim,
	"enqueue": rowstore.TurnQueue, "enqueue_many": rowstore.TurnQueue, "enqueue_alike": rowstore.TurnQueue,
	"set_group": rowstore.TurnQueue, "set_group_rate": rowstore.TurnQueue,
}

// Transactions wait for no job, and for other locks in one order. They count and give only in their turns, look for unique keys
// that they have locked, and change jobs that they have locked.
func TestLocksAreTakenInOneOrder(t *testing.T) {
	t.Parallel()
	c := newContest(t)
	r := &recorder{seen: map[string]bool{}}
	for _, name := range locksJobs {
		if !c.PassesOver(name) {
			t.Errorf("%s.sql waits for jobs that others hold", name)
		}
	}
	c.turns.Taken = func(_ *rowstore.Session, turn rowstore.Turn, shared bool) error {
		r.turns[turn] = r.turns[turn] || !shared
		return nil
	}
	c.turns.Locked = func(keys []rowstore.UniqueKey) {
		if !slices.IsSortedFunc(keys, func(a, b rowstore.UniqueKey) int {
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Key, b.Key))
		}) {
			r.wrong = append(r.wrong, fmt.Sprintf("keys in the order %v", keys))
		}
		for _, k := range keys {
			r.keys[k] = true
		}
	}
	rows := c.Watched(t.Context(), r.begin, func(name string, args []any, _ func(string) error) error {
		if r.seen[name] = true; c.ChangesJobs(name) && !slices.Contains(slices.Concat(locksJobs, changesJobs, changesClaimed), name) {
			r.complain("%s changes jobs, and may wait for them", name)
		}
		r.wait(name, ranks[name], args)
		r.jobs(name, args)
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
	for _, names := range []iter.Seq[string]{slices.Values(changesJobs), maps.Keys(ranks), maps.Keys(needsTurn), maps.Keys(needsShare)} {
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
		_, err := s.ChangeQueue(ctx, queue, change.Apply)
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
		_, err = s.Requeue(ctx, []int64{jobs[0].ID, jobs[1].ID, jobs[2].ID, jobs[5].ID}, time.Time{})
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
		_, err = s.Edit(ctx, []int64{waiting[0].ID, waiting[1].ID}, admin.Edit{Priority: new(3)})
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
	_, err := s.Enqueue(ctx, []dibs.NewJob{{Queue: "new 2", Kind: "k", UniqueKey: "2", Delay: time.Hour}, {Queue: "new 1", Kind: "k", UniqueKey: "1"}})
	for _, change := range []dibs.QueueChange{{Strict: new(true)}, {Strict: new(false)}} {
		_, unset := s.ChangeQueue(ctx, "new 1", change.Apply)
		err = cmp.Or(err, unset)
	}
	_, unpushed := s.Enqueue(ctx, []dibs.NewJob{{Queue: "new 2", Kind: "k", UniqueKey: "2", Delay: 2 * time.Hour, IfHeld: dibs.HeldPush, DelayLimit: 3 * time.Hour}})
	err = cmp.Or(err, unpushed, s.ChangeGroup(ctx, "new 1", "g", dibs.GroupChange{Limit: new(3), Rate: &dibs.Rate{N: 1, Per: time.Second}}.Apply))
	err = cmp.Or(err, s.ChangeGroup(ctx, "new 1", "g", dibs.GroupChange{Limit: new(0), Rate: &dibs.Rate{}}.Apply))
	if err != nil {
		return err
	}
	_, err = s.Enqueue(ctx, slices.Repeat([]dibs.NewJob{{Queue: "many", Kind: "k"}}, rowstore.AlikeAtOnce+rowstore.ManyAtOnce))
	for _, priority := range []int{5, 0} { // the second takes the first one's place
		_, failed := s.Enqueue(ctx, []dibs.NewJob{{Queue: "better", Kind: "k", Group: "g", Priority: &priority}})
		_, unswept := s.Sweep(ctx)
		err = cmp.Or(err, failed, unswept)
	}
	err = cmp.Or(err, s.ChangeGroup(ctx, "gone", "g", dibs.GroupChange{Limit: new(2), Rate: &dibs.Rate{N: 1, Per: time.Second}}.Apply))
	_, unrepaired := s.Repair(ctx)
	return cmp.Or(err, unrepaired, s.DeleteQueue(ctx, "gone", true))
}
