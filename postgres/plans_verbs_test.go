package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

func (e *explaining) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// verbs has the store run each of its statements, on few jobs.
func (e *explaining) verbs() {
	e.Helper()
	e.store.queues.init()                             // settings and lanes are read anew
	e.store.sweeper = sweeper{repairedAt: time.Now()} // the store has no pool to repair with
	e.enqueue(e.store.db)
	e.change()
	e.work()
	e.expire()
	e.inTx(e.store.db)
	e.operate()
	e.flows()
}

// verbsOfTx has the store run each statement that it runs in a caller's transaction.
func (e *explaining) verbsOfTx() {
	e.Helper()
	e.store.queues.init()
	e.store.sweeper = sweeper{sweptAt: time.Now(), repairedAt: time.Now()}
	e.enqueue(e)
	e.change()
	e.inTx(e)
}

// group and key are names that no other round uses.
func (e *explaining) group() string { return "group" + e.round }
func (e *explaining) key() string   { return "key" + e.round }

func jobsOf(queue, group string, n int) []dibs.NewJob {
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		jobs[i] = dibs.NewJob{Queue: queue, Kind: "k", Group: group}
	}
	return jobs
}

func rowsOf(t testing.TB, jobs []dibs.NewJob) []checks.Row {
	t.Helper()
	rows, err := checks.Jobs(jobs, func(string) (int, error) { return dibs.MaxPayloadLimit, nil })
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func (e *explaining) enqueue(c conn) {
	e.Helper()
	c = apart{c}
	later := jobsOf("g", e.group(), 2)
	for i := range later {
		later[i].Delay = time.Millisecond
	}
	unique := jobsOf("u", "", 2)
	unique[0].UniqueKey = e.key()
	wide := jobsOf("q", "", 3)
	wide[1].Payload = strings.Repeat("w", wideFrom)
	wideUnique := slices.Clone(wide)
	wideUnique[1].UniqueKey = e.key()
	for _, jobs := range [][]dibs.NewJob{
		jobsOf("q", "", 10), jobsOf("g", e.group(), 3), later, jobsOf("l", "", 10), jobsOf("lifo", "", 10), jobsOf("fair", e.group(), 3), unique, unique, wide, wideUnique,
	} {
		_, _, err := e.store.enqueue(e.Context(), jobs, c)
		e.must(err)
	}
	e.held(c)
	e.copied(c)
}

// apart runs each statement in a transaction of its own, in which a savepoint would be no use.
type apart struct{ conn }

func (c apart) run(ctx context.Context, steps ...step) error {
	return c.conn.run(ctx, slices.DeleteFunc(steps, func(s step) bool { return strings.Contains(s.sql, "savepoint") })...)
}

// held enqueues jobs whose keys are held.
func (e *explaining) held(c conn) {
	e.Helper()
	var batches [5][]dibs.NewJob
	for i, payload := range []string{"narrow", strings.Repeat("w", wideFrom), "narrow", "", ""} {
		batches[i] = jobsOf("u", "", 3)
		for k := range batches[i] {
			j := &batches[i][k]
			j.UniqueKey, j.UniqueFor, j.Payload, j.IfHeld = fmt.Sprint("held", e.round, k), time.Hour, payload, dibs.HeldReplace
			if i > 2 {
				j.IfHeld, j.Delay, j.DelayLimit = dibs.HeldPush, time.Minute, time.Hour
			}
		}
		done, _, err := e.store.enqueue(e.Context(), batches[i], c)
		e.must(err)
		if want := i > 0; done[2].Existing != want {
			e.Errorf("round %d: job %d was there before: %v, want %v", i, done[2].ID, done[2].Existing, want)
		}
	}
	_, err := e.conn.Exec(e.Context(), "update dibs.job set run_at = now() where queue = 'u' and run_at > now()")
	e.must(err)
}

// copied runs the other statements of an enqueue by COPY.
func (e *explaining) copied(c conn) {
	e.Helper()
	b, err := e.store.newBatch(e.Context(), rowsOf(e, jobsOf("g", e.group(), 10)), true)
	e.must(err)
	var now time.Time
	var ids []int64
	e.must(c.run(e.Context(), e.store.step("enqueue_draw", len(b.rows), b.queues, b.versions).into(&now, &ids)))
	jobs := copiedJobs{s: e.store, now: now, counts: map[string]*added{}, woken: map[queueGroup]bool{}}
	_, err = io.Copy(io.Discard, newCopied(b.rows, ids, jobs.row))
	e.must(err)
	e.must(e.store.countCopied(e.Context(), &jobs, c))
}

// change changes settings.
func (e *explaining) change() {
	e.Helper()
	limit, lifo, fair, strict, places := 3, dibs.LIFO, dibs.Fair, true, 2
	for queue, c := range map[string]dibs.QueueChange{
		"l": {Concurrency: &limit}, "lifo": {Order: &lifo}, "fair": {Order: &fair}, "g": {Strict: &strict, GroupLimit: &places},
	} {
		_, err := e.store.ChangeQueue(e.Context(), queue, c.Apply)
		e.must(err)
	}
	e.must(e.store.writeGroup(e.Context(), e.store.upkeep, "g", dibs.Group{Name: e.group()}, dibs.Group{Name: e.group(), Limit: 2}))
}

func (e *explaining) claim(queue, worker string, kinds ...string) []*dibs.RawJob {
	e.Helper()
	jobs, err := e.store.claimUnderSettings(e.Context(), dibs.ClaimRequest{Queue: queue, Worker: worker + e.round, N: 10, Kinds: kinds}, claimer{conn: e.store.db})
	e.must(err)
	if len(jobs) == 0 {
		e.Fatalf("nothing to claim in queue %s", queue)
	}
	return jobs
}

// work claims and finishes.
func (e *explaining) work() {
	e.Helper()
	ctx, s := e.Context(), e.store
	e.claim("lifo", "w")
	e.claim("fair", "w")
	e.claim("q", "again", "k")
	_, err := s.Resume(ctx, dibs.ClaimRequest{Queue: "q", Worker: "again" + e.round})
	e.must(err)
	e.claimFromMarks()
	jobs := append(e.claim("g", "w"), e.claim("l", "crashed")...)
	leases := []dibs.Lease{{ID: 1 << 60, Token: checks.NewToken()}} // a lost lease
	for _, j := range jobs {
		leases = append(leases, j.Lease())
	}
	_, err = s.Extend(ctx, leases, time.Minute)
	e.must(err)
	e.must(s.finish(ctx, []dibs.Outcome{jobs[0].Lease().Complete(nil), jobs[1].Lease().Retry("no")}, finisher{conn: s.db}))
	if err := s.finish(ctx, []dibs.Outcome{leases[0].Complete(nil)}, finisher{conn: s.db}); !errors.Is(err, dibs.ErrLeaseLost) {
		e.Errorf("a lost job was finished: %v", err)
	}
	e.rated()
}

// rated claims twice: from a queue with a rate, from a group with its own rate, and from a group under its queue's rate
// for groups.
func (e *explaining) rated() {
	e.Helper()
	ctx, s, fast := e.Context(), e.store, &dibs.Rate{N: 1_000_000, Per: time.Second, Burst: 100_000}
	for n := range 2 {
		_, err := s.ChangeQueue(ctx, "r", dibs.QueueChange{Rate: fast, GroupRate: &dibs.Rate{N: 1000 + n, Per: time.Second, Burst: 100}}.Apply)
		e.must(err)
	}
	e.must(s.writeGroup(ctx, s.upkeep, "r", dibs.Group{Name: e.group()}, dibs.Group{Name: e.group(), Limit: 2, Rate: *fast}))
	for range 2 {
		_, _, err := s.enqueue(ctx, append(jobsOf("r", e.group(), 3), jobsOf("r", e.group()+"-other", 3)...), s.db)
		e.must(err)
		var done []dibs.Outcome
		for _, j := range e.claim("r", "w") {
			done = append(done, j.Lease().Complete(nil))
		}
		e.must(s.finish(ctx, done, finisher{conn: s.db}))
	}
	_, err := s.Groups(ctx, "r")
	e.must(err)
}

// claimFromMarks claims from marks, with some jobs that were put back below them.
func (e *explaining) claimFromMarks() {
	e.Helper()
	_, err := e.conn.Exec(e.Context(), "update dibs.job set returned = true where queue = 'q' and id in (select max(id) from dibs.job where queue = 'q')")
	e.must(err)
	at, late := map[int16]mark{dibs.DefaultPriority: {runAt: time.Now().Add(-time.Second)}}, []uint64{1<<40 + 7}
	_, err = e.store.firstWaiting(e.Context(), "q", nil, at, late)
	e.must(err)
	_, err = e.store.dueQueues(e.Context(), []string{"q", "g", "lifo", "missing"}, []string{"k"}, claimer{conn: e.store.db})
	e.must(err)
	q, _ := e.store.queues.get("q")
	r := dibs.ClaimRequest{Queue: "q", Worker: "w", N: 10}
	_, err = e.store.claimStatement(e.Context(), q, r, claimer{conn: e.store.db}, at, late)
	e.must(err)
}

// expire sweeps after the worker that claimed from the queue with a limit has died.
func (e *explaining) expire() {
	e.Helper()
	const ended = `with c as (
		update dibs.claim set check_at = now() - interval '1 s' where worker = 'crashed' || $1 returning token
	) update dibs.job set lease_until = now() - interval '1 s' where token in (select token from c)`
	_, err := e.conn.Exec(e.Context(), ended, e.round)
	e.must(err)
	swept, err := e.store.Sweep(e.Context())
	e.must(err)
	if swept.Expired == 0 {
		e.Error("nothing expired")
	}
}

// inTx claims, gives a job back and completes the others.
func (e *explaining) inTx(c conn) {
	e.Helper()
	in, err := e.conn.Begin(e.Context())
	e.must(err)
	e.callerTx = in
	t := &tx{s: e.store, conn: c}
	for _, queue := range []string{"q", "u", "l", "lifo", "g"} {
		_, _, err := e.store.enqueue(e.Context(), jobsOf(queue, "", 3), c)
		e.must(err)
		jobs, err := t.Claim(e.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: 3})
		e.must(err)
		if len(jobs) == 0 {
			e.Fatalf("nothing to claim in queue %s", queue)
		}
		outcomes := []dibs.Outcome{jobs[0].Lease().Retry("no")}
		for _, j := range jobs[1:] {
			outcomes = append(outcomes, j.Lease().Complete(nil))
		}
		if queue == "q" {
			e.stepped(t, jobs[0])
			outcomes[1].Add = jobsOf("q", "", 2)
		}
		e.must(t.Finish(e.Context(), outcomes))
	}
	e.callerTx = nil
	e.must(in.Commit(e.Context()))
}

// operate makes the operators' calls.
func (e *explaining) operate() {
	e.Helper()
	ctx, s := e.Context(), e.store
	_, err := e.conn.Exec(ctx, "insert into dibs.wake_list (queue, groups) values ('new'||$1::text, '{}')", e.round)
	e.must(err)
	e.must(s.addNewQueues(ctx, ""))
	if err := s.DeleteQueue(ctx, "q", false); !errors.Is(err, dibs.ErrQueueInUse) {
		e.Errorf("deleting a queue with jobs gave %v", err)
	}
	added, err := s.Enqueue(ctx, jobsOf("q", "", 3))
	e.must(err)
	priority, two := 7, []int64{added[0].ID, added[1].ID}
	_, err = s.Edit(ctx, two, admin.Edit{Priority: &priority})
	e.must(err)
	_, _, err = s.Cancel(ctx, append(two, 1<<60))
	e.must(err)
	_, err = s.Requeue(ctx, two, time.Time{})
	e.must(err)
	_, err = s.DeleteEnded(ctx, two, time.Now())
	e.must(err)
	_, err = s.Prune(ctx, "q", dibs.Cancelled, time.Hour)
	e.must(err)
	_, err = s.Get(ctx, added[2].ID)
	e.must(err)
	_, err = s.upkeepReads().Ended(ctx, []int64{1, added[2].ID, 1 << 60})
	e.must(err)
	for _, f := range []admin.Filter{{}, {State: dibs.Running}, {Queue: "q", State: dibs.Waiting}, {State: dibs.Completed}, {Queue: "q", State: dibs.Dead}} {
		f.Limit = 10
		_, err = s.List(ctx, f)
		e.must(err)
	}
	_, err = s.Stats(ctx)
	e.must(err)
	_, err = s.History(ctx, []string{"q", "many7"}, admin.HistoryKept)
	e.must(err)
	_, err = s.History(ctx, nil, 0)
	e.must(err)
	_, err = s.Failures(ctx, admin.FailureFilter{Queues: []string{"q", "many7"}, Limit: 100})
	e.must(err)
	_, err = s.Times(ctx, "q")
	e.must(err)
	_, err = s.Backlogs(ctx, "q", "")
	e.must(err)
	_, err = s.List(ctx, admin.Filter{Queue: "q", UniqueKey: "any"})
	e.must(err)
	_, err = s.sql.facts(ctx, s.upkeep, look{statement: "diagnose"})
	e.must(err)
	e.must(s.NoteChange(ctx, admin.Change{Did: "x"}))
	_, err = s.Changes(ctx, 10)
	e.must(err)
	e.schedules()
	w := dibs.WorkerInfo{ID: checks.NewToken(), Name: "w", Queues: []string{"q"}, State: dibs.WorkerWorking}
	e.must(s.Register(ctx, w))
	_, err = s.Workers(ctx)
	e.must(err)
	_, err = s.DueKinds(ctx, "q")
	e.must(err)
	_, err = s.Followers(ctx, "q")
	e.must(err)
	_, err = s.Flow(ctx, 1, 10)
	if !errors.Is(err, dibs.ErrNotFound) {
		e.must(err)
	}
	for _, state := range []dibs.State{"", dibs.Cancelled} {
		_, err = s.FlowJobs(ctx, 1, state, 0)
		e.must(err)
	}
	w.State = dibs.WorkerStopped
	e.must(s.Register(ctx, w))
}

// schedules has a schedule tick.
func (e *explaining) schedules() {
	e.Helper()
	ctx, s, name := e.Context(), e.store, "schedule"+e.round
	_, err := s.SetSchedule(ctx, dibs.Schedule{Name: name, Spec: "every 1h", Kind: "k", Queue: "q"})
	e.must(err)
	_, err = s.ChangeSchedule(ctx, name, func(n *dibs.Schedule) error {
		n.SkipOverlap = true
		return nil
	})
	e.must(err)
	_, err = s.Schedules(ctx)
	e.must(err)
	_, err = e.conn.Exec(ctx, "update dibs.schedule set since = now() - interval '1 h', next_at = now() where name = $1", name)
	e.must(err)
	r := tickRound{conn: s.db}
	e.must(s.tickSome(ctx, &r))
	if len(r.queues) == 0 {
		e.Error("the schedule has made no job")
	}
	e.must(s.db.run(ctx, step{sql: s.sql.get("schedules_busy"), args: []any{[]int64{1, 2}}}))
	e.must(s.DeleteSchedule(ctx, name))
}

// flows has jobs come after others, in the call and before it, and settles their ends: some are completed, one dies and is
// requeued.
func (e *explaining) flows() {
	e.Helper()
	ctx, s := e.Context(), e.store
	add := func(jobs ...dibs.NewJob) []dibs.Enqueued {
		out, _, err := s.enqueue(ctx, jobs, apart{s.db})
		e.must(err)
		return out
	}
	settle := func() {
		for range 3 {
			_, err := s.settleOnce(ctx, s.upkeep)
			e.must(err)
		}
	}
	job := func(options ...func(*dibs.NewJob)) dibs.NewJob {
		j := jobsOf("f", "", 1)[0]
		for _, o := range options {
			o(&j)
		}
		return j
	}
	first := add(job())[0].ID
	all := add(job(dibs.Ref("a")), job(dibs.Ref("b")), job(dibs.Ref("c"), dibs.After("a"), dibs.After(first)), job(dibs.After("b")), job(dibs.AfterEnd("b"), dibs.InGroup(e.group())))
	settle()
	var done []dibs.Outcome
	for _, j := range e.claim("f", "w") {
		o := j.Lease().Complete(nil)
		if j.ID == all[1].ID {
			o = j.Lease().Die("no")
		}
		done = append(done, o)
	}
	e.must(s.finish(ctx, done, finisher{conn: s.db}))
	settle()
	before, _, err := s.Before(ctx, all[2].ID, first-1, 2)
	if e.must(err); len(before) != 2 {
		e.Errorf("%d jobs are before job %d", len(before), all[2].ID)
	}
	look, dead := 0, []int64{all[1].ID}
	e.must(s.db.run(ctx, s.withFollowers("requeue", dead, s.step("requeue", dead, nil), &look)...))
	if look == 0 {
		e.Error("nobody waits for the requeued job")
	}
	settle()
	e.adding()
	settle()
}

// adding completes a job that has steps, adds others, and is followed.
func (e *explaining) adding() {
	e.Helper()
	ctx, s := e.Context(), e.store
	_, _, err := s.enqueue(ctx, []dibs.NewJob{
		{Queue: "added", Kind: "k", Ref: "split"},
		{Queue: "added", Kind: "k", After: []dibs.Dep{{Ref: "split"}}},
		{Queue: "added", Kind: "k", After: []dibs.Dep{{Ref: "split", On: dibs.NeedEnded}}},
	}, apart{s.db})
	e.must(err)
	split := e.claim("added", "w")[0]
	e.stepped(s, split)
	o := split.Lease().Complete(nil)
	o.Add = jobsOf("added", "", 10)
	_, refused, err := s.finishAndAdd(ctx, []dibs.Outcome{o}, finisher{conn: apart{s.db}})
	e.must(errors.Join(refused, err))
}

// stepped writes steps of a job, and reads them.
func (e *explaining) stepped(store dibs.StepStore, j *dibs.RawJob) {
	e.Helper()
	for _, name := range []string{"charge", "mail", "mail"} {
		e.must(store.PutStep(e.Context(), j.Lease(), name, []byte("1")))
	}
	done, err := store.Steps(e.Context(), j.Lease())
	e.must(err)
	if len(done) != 2 {
		e.Errorf("job %d has the steps %v", j.ID, done)
	}
}
