package history

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/dibs-queue/dibs"
)

func (r *Recorder) enqueue(tx string, jobs []dibs.NewJob, call func() ([]dibs.Enqueued, error)) (done []dibs.Enqueued, err error) {
	c := &Call{Verb: Enqueue, Tx: tx, New: make([]New, len(jobs))}
	for i := range jobs {
		c.New[i] = newOf(&jobs[i])
	}
	err = r.record(c, func(c *Call) error {
		done, err = call()
		for i, e := range done {
			c.New[i].ID, c.New[i].Existing = e.ID, e.Existing
		}
		return err
	})
	return done, err
}

func newOf(j *dibs.NewJob) New {
	n := New{
		Queue: queueName(j.Queue), Group: j.Group, UniqueKey: j.UniqueKey, UniqueUntil: j.UniqueUntil,
		Priority: dibs.DefaultPriority, Delay: j.Delay, RunAt: j.RunAt, MaxAttempts: j.MaxAttempts,
		Ref: j.Ref, After: slices.Clone(j.After),
	}
	if j.Priority != nil {
		n.Priority = *j.Priority
	}
	if n.UniqueKey != "" && n.UniqueUntil == "" {
		n.UniqueUntil = dibs.UntilFinished
	}
	payload := payloadOf(j)
	n.Key, n.Sum = Key(payload), Sum(payload)
	return n
}

func payloadOf(j *dibs.NewJob) json.RawMessage {
	switch p := j.Payload.(type) {
	case json.RawMessage:
		return p
	case []byte:
		return p
	}
	payload, _ := json.Marshal(j.Payload) // the store refuses what cannot be encoded
	return payload
}

func queueName(q string) string {
	if q == "" {
		return dibs.DefaultQueue
	}
	return q
}

func (r *Recorder) claim(tx string, q dibs.ClaimRequest, call func() ([]*dibs.RawJob, error)) ([]*dibs.RawJob, error) {
	c := &Call{Verb: Claim, Tx: tx, Queue: queueName(q.Queue), Worker: q.Worker, Want: q.N, Ahead: q.Ahead, Kinds: len(q.Kinds) > 0, Lease: q.Lease}
	return r.recordClaim(c, call)
}

// recordClaim records a claim or a resume, and the jobs that it returned.
func (r *Recorder) recordClaim(c *Call, call func() ([]*dibs.RawJob, error)) (jobs []*dibs.RawJob, err error) {
	err = r.record(c, func(c *Call) error {
		jobs, err = call()
		c.Jobs = make([]Job, len(jobs))
		for i, j := range jobs {
			c.Jobs[i] = Job{
				ID: j.ID, Key: Key(j.Payload), Sum: Sum(j.Payload), Token: j.Token, Attempt: j.Attempt, Excused: j.Excused, MaxAttempts: j.MaxAttempts,
				Priority: j.Priority, Group: j.Group, RunAt: j.RunAt, ClaimedAt: j.ClaimedAt, LeaseUntil: j.LeaseUntil,
			}
		}
		return err
	})
	return jobs, err
}

// finish keeps a copy of the outcomes, because the caller may change the slice.
func (r *Recorder) finish(tx string, outcomes []dibs.Outcome, call func() error) error {
	c := &Call{Verb: Finish, Tx: tx, Outcomes: slices.Clone(outcomes)}
	for i := range c.Outcomes {
		o := &c.Outcomes[i]
		for k := range o.Add {
			n := newOf(&o.Add[k])
			n.By = o.ID
			c.New = append(c.New, n)
		}
		o.Add = nil
	}
	return r.record(c, func(c *Call) error {
		err := call()
		var refused *dibs.FinishError
		if errors.As(err, &refused) {
			c.Refused, c.leftOut = refused.Lost, refused.Unwritten
		}
		return err
	})
}
