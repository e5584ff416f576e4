package history_test

import (
	"math/rand/v2"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// newOf returns the job of an enqueue that has an answer, or nil.
func newOf(e *history.Evidence, id int64) *history.New {
	for _, c := range e.Calls {
		for i := range c.New {
			if n := &c.New[i]; c.Verb == history.Enqueue && n.ID == id && !n.Existing && (c.Tx == "" || endOf(e, c.Tx).Verb == history.Commit) {
				return n
			}
		}
	}
	return nil
}

// pickFollower picks a job at the end that comes after others and that nobody has changed.
func pickFollower(e *history.Evidence, r *rand.Rand, f func(j *dibs.RawJob) bool) bool {
	return pick(r, e.Final, func(j *dibs.RawJob) bool {
		n := newOf(e, j.ID)
		return n != nil && len(n.After) > 0 && !operatorChanged(e, j.ID) && f(j)
	})
}

// pickAdding picks an outcome, outside of a transaction, that was written and adds jobs.
func pickAdding(e *history.Evidence, r *rand.Rand, f func(*history.Call) bool) bool {
	return pickCall(e, r, history.Finish, func(c *history.Call) bool {
		return c.Tx == "" && slices.ContainsFunc(c.New, func(n history.New) bool {
			return n.UniqueKey == "" && !slices.Contains(c.Refused, n.By)
		}) && f(c)
	})
}

var flowDamages = []damage{
	{"a job starts before the end of one that it comes after", 11, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Claim, func(early *history.Call) bool {
			if len(early.Jobs) == 0 || early.Tx != "" {
				return false
			}
			n := newOf(e, early.Jobs[0].ID)
			return n != nil && !operatorChanged(e, n.ID) && pickCall(e, r, history.Claim, func(late *history.Call) bool {
				if !late.Begin.After(early.End) || len(late.Jobs) == 0 || operatorChanged(e, late.Jobs[0].ID) || late.Jobs[0].Attempt > 1 {
					return false
				}
				n.After = []dibs.Dep{{ID: late.Jobs[0].ID}}
				return true
			})
		})
	}},
	{"a job has another cause", 11, func(e *history.Evidence, r *rand.Rand) bool {
		return pickFollower(e, r, func(j *dibs.RawJob) bool {
			if j.Cause == 0 {
				return false
			}
			j.Cause = 1 << 40
			return true
		})
	}},
	{"a job is cancelled because of one that did not keep it", 11, func(e *history.Evidence, r *rand.Rand) bool {
		return pickFollower(e, r, func(j *dibs.RawJob) bool {
			if j.Cause != 0 {
				return false
			}
			j.State, j.Cause = dibs.Cancelled, 1<<40
			return true
		})
	}},
	{"a job stays blocked", 11, func(e *history.Evidence, r *rand.Rand) bool {
		return pickFollower(e, r, func(j *dibs.RawJob) bool {
			j.State, j.Attempt, j.Cause = dibs.Blocked, 0, 0
			return true
		})
	}},
	{"a step is not told", 12, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Steps, func(c *history.Call) bool {
			had := len(c.Steps)
			c.Steps = nil
			return had > 0
		})
	}},
	{"a step is told that nobody wrote", 12, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Steps, func(c *history.Call) bool {
			c.Steps = append(c.Steps, history.Step{Name: "other", Sum: 1})
			return len(c.Refused) == 0
		})
	}},
	{"the refusal of a step is not reported", 12, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.PutStep, func(c *history.Call) bool {
			had := len(c.Refused)
			c.Refused = nil
			return had > 0
		})
	}},
	{"an added job is missing", 13, func(e *history.Evidence, r *rand.Rand) bool {
		return pickAdding(e, r, func(c *history.Call) bool {
			lost := c.New[0]
			lost.Key, lost.UniqueKey = "lost", ""
			c.New = append(c.New, lost)
			return !slices.Contains(c.Refused, lost.By)
		})
	}},
	{"an outcome that adds jobs is said to be refused", 13, func(e *history.Evidence, r *rand.Rand) bool {
		return pickAdding(e, r, func(c *history.Call) bool {
			for _, n := range c.New {
				c.Refused = append(c.Refused, n.By)
			}
			return true
		})
	}},
}
