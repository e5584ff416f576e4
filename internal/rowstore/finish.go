package rowstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
	"github.com/dibs-queue/dibs/internal/reads"
)

// Finish writes outcomes; those whose token is no longer good are refused.
func (s *Store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	if len(outcomes) > 0 {
		ctx = s.nearClaim(ctx, outcomes[0].Token)
	}
	return s.finishAll(ctx, outcomes, func(outcomes []dibs.Outcome) (r refused, err error) {
		err = s.write(ctx, "finish", func(tx *Session) (err error) {
			r, err = tx.finish(outcomes)
			return err
		})
		if err == nil {
			s.waits.Ended(func() []int64 { return idsOf(outcomes) })
		}
		return r, err
	})
}

// refused are the jobs whose outcomes a Finish has not written: their leases are lost, or another transaction holds the
// jobs.
type refused struct{ lost, busy []int64 }

// Where Concurrent does not say how long, a Finish tries again for busyFor to write outcomes of jobs that other transactions
// hold. It pauses for busyPause between tries.
const (
	busyFor   = time.Second
	busyPause = 20 * time.Millisecond
)

var errBusy = errors.New("another transaction holds them")

// finishAll checks outcomes and calls write with them. It calls write again for jobs that other transactions hold, for
// a while.
func (s *Store) finishAll(ctx context.Context, outcomes []dibs.Outcome, write func([]dibs.Outcome) (refused, error)) error {
	outcomes, err := checks.Outcomes(outcomes)
	if err != nil {
		return err
	}
	var left dibs.FinishError
	for began := time.Now(); ; time.Sleep(busyPause) {
		r, err := write(outcomes)
		if err == nil {
			s.notLost(ctx, outcomes, &r)
		}
		switch all := idsOf(outcomes); {
		case err != nil && left.Err == nil:
			return err
		case err != nil: // earlier rounds have written the outcomes of other jobs
			left.Unwritten, left.Err = all, err
			return &left
		}
		if left.Lost = append(left.Lost, r.lost...); len(r.busy) > 0 {
			left.Err = errBusy
		}
		if len(r.busy) == 0 || time.Since(began) > s.patience() || ctx.Err() != nil {
			left.Unwritten = r.busy
			break
		}
		again := make(map[int64]bool, len(r.busy))
		for _, id := range r.busy {
			again[id] = true
		}
		outcomes = slices.DeleteFunc(slices.Clone(outcomes), func(o dibs.Outcome) bool { return !again[o.ID] })
	}
	return checks.Unfinished(left)
}

func idsOf(outcomes []dibs.Outcome) []int64 {
	ids := make([]int64, len(outcomes))
	for i := range outcomes {
		ids[i] = outcomes[i].ID
	}
	return ids
}

func (s *Session) finish(outcomes []dibs.Outcome) (r refused, err error) {
	now := s.now()
	jobs, err := s.holding(idsOf(outcomes))
	if err != nil {
		return r, err
	}
	var missing []dibs.Lease
	for i := range outcomes {
		if o := &outcomes[i]; jobs[o.ID] == nil {
			missing = append(missing, dibs.Lease{ID: o.ID, Token: o.Token})
		}
	}
	busy, err := s.busy(missing)
	if err != nil {
		return r, err
	}
	var all fates
	adding := map[int64]bool{} // the jobs whose written outcomes add others
	perClaim := make(map[dibs.Token]int, 1)
	for i := range outcomes {
		o := &outcomes[i]
		j := jobs[o.ID]
		if busy[o.ID] {
			r.busy = append(r.busy, o.ID)
			continue
		}
		if j == nil || j.token != o.Token || j.leaseUntil <= now && !s.ownTokens[j.token] {
			r.lost = append(r.lost, o.ID)
			continue
		}
		q, err := s.ensureQueue(j.queue) // makes the queue again if somebody has deleted it
		if err != nil {
			return r, err
		}
		s.apply(j, decide(o, j, q, now), q, &all)
		perClaim[o.Token]++
		if len(o.Add) > 0 {
			adding[o.ID] = true
		}
	}
	left, err := s.heritages(outcomes, adding)
	if err != nil {
		return r, err
	}
	s.writeFates(&all, now)
	if err := s.add(outcomes, left); err != nil {
		return r, err
	}
	for token, n := range perClaim {
		s.later("drop_claim", token[:], n)
	}
	return r, s.settle()
}

// heldJob is the part of a claimed job on which its fate depends.
type heldJob struct {
	id              int64
	token           dibs.Token
	queue, group    string
	attempt         int
	excused         int
	maxAttempts     int
	runAt           int64
	claimedAt       int64
	leaseUntil      int64
	worker          string
	cancelRequested bool
	errors          string // the error history, as it is stored
	links           links
	stepped         bool // the job has steps
}

// holding reads those of the jobs that are claimed, whether or not their leases have ended.
func (s *Session) holding(ids []int64) (map[int64]*heldJob, error) {
	jobs := make(map[int64]*heldJob, len(ids))
	err := s.each("held", func(rows *sql.Rows) error {
		j := &heldJob{}
		err := rows.Scan(&j.id, reads.Token(&j.token), reads.Text(&j.queue), reads.Text(&j.group), &j.attempt, &j.excused, &j.maxAttempts,
			&j.runAt, &j.claimedAt, &j.leaseUntil, reads.Text(&j.worker), &j.cancelRequested, reads.Text(&j.errors),
			&j.links.followed, &j.links.inFlow, &j.stepped)
		jobs[j.id] = j
		return err
	}, jsonIDs(ids))
	return jobs, err
}

// fate is the new state of a job after its attempt, as give_back.sql and finish.sql write it.
type fate struct {
	ID     int64      `json:"id"`
	State  dibs.State `json:"state,omitempty"` // a final state; give_back.sql does not use it
	RunAt  int64      `json:"run_at"`
	Cancel bool       `json:"cancel,omitempty"` // an operator has just asked to cancel the job
	Cause  int64      `json:"cause,omitempty"`  // the job because of which it is cancelled
	Errors string     `json:"errors,omitempty"` // the new error history; empty: it does not change
	Result string     `json:"result,omitempty"`

	decidedAt   int64
	failed      bool // the attempt counts as failed
	excused     bool // the attempt does not count
	leavesPlace bool // the job gives up its group's place
	links       links
	stepped     bool // the job has steps
}

// after is the state of the job after an outcome: see dibs.RawJob.After.
func (j *heldJob) after(o dibs.Outcome) dibs.State {
	row := dibs.RawJob{Attempt: j.attempt, Excused: j.excused, MaxAttempts: j.maxAttempts, CancelRequested: j.cancelRequested}
	return row.After(o)
}

// failure returns the job's error history with an entry for the attempt that ends now, as it is stored. The entries
// before it are copied as text: to encode them anew would take longer than all else.
func (j *heldJob) failure(now int64, text string) string {
	e := dibs.AttemptError{
		Attempt: j.attempt, RunAt: fromMicro(j.runAt), ClaimedAt: fromMicro(j.claimedAt), At: fromMicro(now), Worker: j.worker, Error: text,
	}
	var old []dibs.AttemptError
	if j.errors == "" || json.Unmarshal([]byte(j.errors), &old) != nil || len(old) == 0 || len(old) > dibs.MaxErrors {
		return jsonText(checks.History(checks.ReadHistory([]byte(j.errors)), e))
	}
	kept := strings.TrimRight(j.errors, "] \t\r\n")
	if len(old) == dibs.MaxErrors { // drop the oldest entry
		d := json.NewDecoder(strings.NewReader(j.errors))
		_, _ = d.Token() // the bracket, and then the oldest entry; both were just read without an error
		_ = d.Decode(&old[0])
		kept = "[" + strings.TrimLeft(kept[d.InputOffset():], ", \t\r\n")
	}
	return kept + "," + jsonText(e) + "]"
}

// decide turns an outcome into the job's fate.
func decide(o *dibs.Outcome, j *heldJob, q *queue, now int64) fate {
	f := fate{ID: j.id, State: j.after(*o), decidedAt: now, RunAt: j.runAt, Result: string(o.Result)}
	if o.LeavesError() {
		f.Errors = j.failure(now, o.Error)
	}
	f.failed = f.State != dibs.Cancelled && (o.Ending == dibs.EndRetry || o.Ending == dibs.EndDead)
	if f.State != dibs.Waiting {
		return f
	}
	if o.Ending != dibs.EndRetry {
		f.excused = true
	}
	if o.Ending != dibs.EndRelease {
		delay := q.Backoff.Delay(j.attempt-j.excused, 2*rand.Float64()-1)
		if o.Delay != nil {
			delay = *o.Delay
		}
		f.RunAt, f.leavesPlace = now+micro(delay), !q.Strict
	}
	return f
}

// apply counts what becomes of a job, and adds it to the fates that writeFates writes.
func (s *Session) apply(j *heldJob, f fate, q *queue, all *fates) {
	f.links = j.links
	s.touch(j.queue, j.group)
	s.count(j.queue, func(t *tally) {
		t.running--
		if f.failed {
			t.failed++
		}
		if f.State == dibs.Dead {
			t.died++
		}
		if f.State == dibs.Completed {
			t.succeeded++
		}
		if f.failed || f.State == dibs.Completed {
			t.run = plus(t.run, span(j.claimedAt, f.decidedAt))
		}
	})
	if q.Concurrency > 0 {
		s.woken[j.queue] = true // its end may let another job start under the limit
	}
	if f.State.Final() {
		f.stepped = j.stepped
		s.end(f, q, all)
		return
	}
	back := comeback{gateReady, f.excused}
	if f.leavesPlace {
		back.gate = firstGate(j.group, f.RunAt, f.decidedAt)
	}
	s.countArrival(j.queue, j.group, back.gate)
	if all.waiting == nil {
		all.waiting = make(map[comeback][]fate)
	}
	f.State = ""
	all.waiting[back] = append(all.waiting[back], f)
}

// fates collects what becomes of the jobs of one call, for statements that write many jobs at once.
type fates struct {
	waiting   map[comeback][]fate // jobs that wait again
	completed []int64             // jobs to copy to the finished ones as completed, with no result or errors to write
	ended     []fate              // other jobs to copy to the finished ones
	large     []fate              // completed jobs with large results to copy to the finished ones
	gone      []int64             // jobs to delete from the live ones
	stepped   []int64             // jobs that are not kept and have steps, which go too
}

// comeback says how a job waits again: at which gate, and whether its attempt counts.
type comeback struct {
	gate    int
	excused bool
}

// end moves a live job to the finished ones. If the queue does not keep it, it is deleted, unless others come after it:
// then it is kept until they have ended.
func (s *Session) end(f fate, q *queue, all *fates) {
	all.gone = append(all.gone, f.ID)
	s.noteEnd(f.ID, f.links)
	if retention(&q.Queue, f.State) == 0 && !f.links.followed {
		if f.stepped {
			all.stepped = append(all.stepped, f.ID)
		}
		return
	}
	s.count(q.Name, func(t *tally) { t.ended(f.State, 1) })
	switch {
	case f.State == dibs.Completed && f.Result == "":
		all.completed = append(all.completed, f.ID)
	case len(f.Result) > largeResult:
		all.large = append(all.large, f)
	default:
		all.ended = append(all.ended, f)
	}
}

// largeResult is the size in bytes from which on a result is written faster by a statement of its own.
const largeResult = 16 << 10

// writeFates writes what apply and end have collected.
func (s *Session) writeFates(all *fates, now int64) {
	for back, jobs := range all.waiting {
		laterRows(s, "give_back", jobs, back.gate, back.excused)
	}
	if len(all.completed) > 0 {
		s.later("finish", jsonIDs(all.completed), string(dibs.Completed), now, nil)
	}
	laterRows(s, "finish", all.ended, nil, now, nil)
	for _, f := range all.large { // only completed jobs have results
		s.later("finish", jsonIDs([]int64{f.ID}), string(dibs.Completed), now, f.Result)
	}
	if len(all.gone) > 0 {
		s.later("remove", jsonIDs(all.gone))
	}
	if len(all.stepped) > 0 {
		s.later("drop_steps", jsonIDs(all.stepped))
	}
}

// retention is how long a queue keeps jobs of a final state.
func retention(q *dibs.Queue, state dibs.State) time.Duration {
	switch state {
	case dibs.Completed:
		return q.KeepCompleted
	case dibs.Dead:
		return q.KeepDead
	default:
		return q.KeepCancelled
	}
}
