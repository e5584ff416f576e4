package rowstore

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Finish writes outcomes; those whose token is no longer good are refused.
func (s *Store) Finish(ctx context.Context, outcomes []dibs.Outcome) error {
	outcomes, err := checks.Outcomes(outcomes)
	if err != nil {
		return err
	}
	var lost []int64
	err = s.write(ctx, "finish", func(tx *Session) (err error) {
		lost, err = tx.finish(outcomes)
		return err
	})
	if err != nil {
		return err
	}
	s.waits.Ended(func() []int64 { return idsOf(outcomes) })
	return leaseLost(lost)
}

func idsOf(outcomes []dibs.Outcome) []int64 {
	ids := make([]int64, len(outcomes))
	for i := range outcomes {
		ids[i] = outcomes[i].ID
	}
	return ids
}

func leaseLost(ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	return &dibs.FinishError{Lost: ids}
}

// finish returns the ids that were refused.
func (s *Session) finish(outcomes []dibs.Outcome) ([]int64, error) {
	now, err := s.now()
	if err != nil {
		return nil, err
	}
	jobs, err := s.holding(idsOf(outcomes))
	if err != nil {
		return nil, err
	}
	var lost []int64
	var gone endings
	perClaim := make(map[dibs.Token]int, 1)
	for i := range outcomes {
		o := &outcomes[i]
		j := jobs[o.ID]
		if j == nil || j.token != o.Token || j.leaseUntil <= now && !s.ownTokens[j.token] {
			lost = append(lost, o.ID)
			continue
		}
		q, err := s.ensureQueue(j.queue) // somebody may have deleted it
		if err != nil {
			return nil, err
		}
		if err := s.apply(j, decide(o, j, q, now), q, &gone); err != nil {
			return nil, err
		}
		perClaim[o.Token]++
	}
	if err := s.flush(&gone, now); err != nil {
		return nil, err
	}
	for token, n := range perClaim {
		if _, err := s.exec("drop_claim", token[:], n); err != nil {
			return nil, err
		}
	}
	return lost, s.settle()
}

// heldJob is the part of a claimed job that decides its fate.
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
	errors          []dibs.AttemptError
}

// holding reads the claimed ones among the jobs, whether or not their leases have ended.
func (s *Session) holding(ids []int64) (map[int64]*heldJob, error) {
	jobs := make(map[int64]*heldJob, len(ids))
	err := s.each("held", func(rows *sql.Rows) error {
		j := &heldJob{}
		err := rows.Scan(&j.id, tokenColumn{&j.token}, text[string]{&j.queue}, text[string]{&j.group}, &j.attempt, &j.excused, &j.maxAttempts,
			&j.runAt, &j.claimedAt, &j.leaseUntil, text[string]{&j.worker}, &j.cancelRequested, history{&j.errors})
		jobs[j.id] = j
		return err
	}, jsonIDs(ids))
	return jobs, err
}

// fate is the new state of a claimed job after its attempt.
type fate struct {
	state       dibs.State // a final one, or Waiting
	decidedAt   int64
	failed      bool // counts as a failed attempt
	excused     int
	runAt       int64
	leavesPlace bool // the job gives up its group's place
	errors      []dibs.AttemptError
	result      []byte
}

// after is dibs.RawJob.After of the job.
func (j *heldJob) after(o dibs.Outcome) dibs.State {
	row := dibs.RawJob{Attempt: j.attempt, Excused: j.excused, MaxAttempts: j.maxAttempts, CancelRequested: j.cancelRequested}
	return row.After(o)
}

// failure is the job's error history with the attempt that ends now.
func (j *heldJob) failure(now int64, text string) []dibs.AttemptError {
	return checks.History(j.errors, dibs.AttemptError{
		Attempt: j.attempt, RunAt: fromMicro(j.runAt), ClaimedAt: fromMicro(j.claimedAt), At: fromMicro(now), Worker: j.worker, Error: text,
	})
}

// decide turns an outcome into the job's fate.
func decide(o *dibs.Outcome, j *heldJob, q *queue, now int64) fate {
	f := fate{state: j.after(*o), decidedAt: now, excused: j.excused, runAt: j.runAt, errors: j.errors, result: o.Result}
	if o.LeavesError() {
		f.errors = j.failure(now, o.Error)
	}
	f.failed = f.state != dibs.Cancelled && (o.Ending == dibs.EndRetry || o.Ending == dibs.EndDead)
	if f.state != dibs.Waiting {
		return f
	}
	if o.Ending != dibs.EndRetry {
		f.excused++
	}
	if o.Ending != dibs.EndRelease {
		delay := q.Backoff.Delay(j.attempt-j.excused, 2*rand.Float64()-1)
		if o.Delay != nil {
			delay = *o.Delay
		}
		f.runAt, f.leavesPlace = now+micro(delay), !q.Strict
	}
	return f
}

// apply writes a job's fate, except the parts that it adds to gone for flush.
func (s *Session) apply(j *heldJob, f fate, q *queue, gone *endings) error {
	s.touch(j.queue, j.group)
	s.count(j.queue, func(t *tally) {
		t.running--
		if f.failed {
			t.failed++
		}
		if f.state == dibs.Dead {
			t.died++
		}
		if f.state == dibs.Completed {
			t.succeeded++
		}
		if f.failed || f.state == dibs.Completed {
			t.run = plus(t.run, span(j.claimedAt, f.decidedAt))
		}
	})
	if q.Concurrency > 0 {
		s.woken[j.queue] = true // another job may start under the limit
	}
	if f.state.Final() {
		return s.end(j.id, q, f, gone)
	}
	gate := gateReady
	if f.leavesPlace {
		gate = firstGate(j.group, f.runAt, f.decidedAt)
	}
	s.countArrival(j.queue, j.group, gate)
	_, err := s.exec("give_back", j.id, gate, f.runAt, f.excused, errorText(f.errors))
	return err
}

// endings are the jobs that end in one call, for the statements that handle all at once.
type endings struct {
	completed []int64 // jobs to copy to the finished ones
	all       []int64 // jobs to delete from the live ones
}

// end moves a live job to the finished ones, or deletes it if they are not kept.
func (s *Session) end(id int64, q *queue, f fate, gone *endings) error {
	gone.all = append(gone.all, id)
	if retention(&q.Queue, f.state) == 0 {
		return nil
	}
	s.count(q.Name, func(t *tally) { t.ended(f.state, 1) })
	if f.state == dibs.Completed && f.result == nil {
		gone.completed = append(gone.completed, id)
		return nil
	}
	_, err := s.exec("finish", jsonIDs([]int64{id}), string(f.state), f.decidedAt, errorText(f.errors), nullJSON(f.result))
	return err
}

// flush runs the statements that end has put off, for all jobs of a call together.
func (s *Session) flush(gone *endings, now int64) error {
	if len(gone.completed) > 0 {
		if _, err := s.exec("finish", jsonIDs(gone.completed), string(dibs.Completed), now, nil, nil); err != nil {
			return err
		}
	}
	if len(gone.all) > 0 {
		if _, err := s.exec("remove", jsonIDs(gone.all)); err != nil {
			return err
		}
	}
	return nil
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
