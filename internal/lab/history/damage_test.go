package history_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/history"
	"github.com/dibs-queue/dibs/internal/needs"
)

// damage changes a correct history so that it breaks a promise. Its function do chooses
// among the calls that fit, and returns false if there are none.
type damage struct {
	name    string
	promise int // the promise that the judge must find broken
	do      func(e *history.Evidence, r *rand.Rand) bool
}

// pick calls f with the items in random order until it returns true.
func pick[T any](r *rand.Rand, items []T, f func(T) bool) bool {
	return slices.ContainsFunc(r.Perm(len(items)), func(i int) bool { return f(items[i]) })
}

// pickCall picks a call of the verb.
func pickCall(e *history.Evidence, r *rand.Rand, verb history.Verb, f func(*history.Call) bool) bool {
	return pick(r, e.Calls, func(c *history.Call) bool { return c.Verb == verb && f(c) })
}

// endOf returns the call that ends the transaction.
func endOf(e *history.Evidence, tx string) *history.Call {
	for _, c := range e.Calls {
		if c.Tx == tx && (c.Verb == history.Commit || c.Verb == history.Rollback) {
			return c
		}
	}
	return &history.Call{}
}

var damages = append(flowDamages, []damage{
	{"a job is lost", 1, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Enqueue, func(c *history.Call) bool {
			if c.Tx != "" || c.Fate != history.Done || len(c.New) == 0 || c.New[0].Existing {
				return false // it may have been rolled back
			}
			n := slices.IndexFunc(e.Final, func(j *dibs.RawJob) bool { return j.ID == c.New[0].ID })
			if n >= 0 {
				e.Final = slices.Delete(e.Final, n, n+1)
			}
			return n >= 0
		})
	}},
	{"a job becomes two", 1, func(e *history.Evidence, r *rand.Rand) bool {
		j := *e.Final[r.IntN(len(e.Final))]
		j.ID = 1 << 41
		e.Final = append(e.Final, &j)
		return true
	}},
	{"a rollback is recorded as a commit", 1, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Enqueue, func(c *history.Call) bool {
			end := endOf(e, c.Tx)
			if end.Verb != history.Rollback || c.New[0].Existing {
				return false
			}
			end.Verb = history.Commit
			return true
		})
	}},
	{"a commit is recorded as a rollback", 1, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Enqueue, func(c *history.Call) bool {
			end := endOf(e, c.Tx)
			if end.Verb != history.Commit || c.New[0].Existing {
				return false
			}
			end.Verb = history.Rollback
			return true
		})
	}},
	{"a payload is changed", 1, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Claim, func(c *history.Call) bool {
			if len(c.Jobs) > 0 {
				c.Jobs[0].Sum++
			}
			return len(c.Jobs) > 0
		})
	}},
	{"two claims exchange a job's token", 2, func(e *history.Evidence, r *rand.Rand) bool {
		var last *history.Call
		return pickCall(e, r, history.Claim, func(c *history.Call) bool {
			if len(c.Jobs) < 2 { // another job of the claim must show the right token
				return false
			}
			if last == nil {
				last = c
				return false
			}
			c.Jobs[0].Token, last.Jobs[0].Token = last.Jobs[0].Token, c.Jobs[0].Token
			return true
		})
	}},
	{"another worker claims a job that is held", 2, func(e *history.Evidence, r *rand.Rand) bool {
		var held *history.Call
		for _, c := range e.Calls {
			if c.Verb == history.Claim && c.Tx == "" && len(c.Jobs) > 0 {
				if held != nil && c.End.Before(held.Jobs[0].LeaseUntil) && !finishedBy(e, held, c) && !operatorChanged(e, held.Jobs[0].ID) && countClaims(e, held.Jobs[0].ID) == 1 {
					twin := held.Jobs[0]
					twin.Token, twin.Attempt = c.Jobs[0].Token, twin.Attempt+1
					c.Jobs = append(c.Jobs, twin)
					return true
				}
				held = c
			}
		}
		return false
	}},
	{"a refusal is not reported", 3, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Finish, func(c *history.Call) bool {
			if c.Tx != "" || len(c.Refused) == 0 {
				return false
			}
			c.Refused = c.Refused[1:]
			return true
		})
	}},
	{"a completed job is dead", 4, func(e *history.Evidence, r *rand.Rand) bool {
		return pick(r, e.Final, func(j *dibs.RawJob) bool {
			if j.State != dibs.Completed || j.Result == nil || operatorChanged(e, j.ID) {
				return false
			}
			j.State = dibs.Dead
			return true
		})
	}},
	{"the errors of a job are lost", 4, func(e *history.Evidence, r *rand.Rand) bool {
		return pick(r, e.Final, func(j *dibs.RawJob) bool {
			if !slices.ContainsFunc(j.Errors, func(a dibs.AttemptError) bool { return a.Error != "lease expired" }) {
				return false
			}
			j.Errors = nil
			return true
		})
	}},
	{"a job is left behind", 4, func(e *history.Evidence, r *rand.Rand) bool {
		e.Final[r.IntN(len(e.Final))].State = dibs.Waiting
		return true
	}},
	{"an attempt is missing", 5, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Claim, func(c *history.Call) bool {
			if len(c.Jobs) == 0 || c.Tx != "" {
				return false
			}
			c.Jobs = c.Jobs[1:]
			return true
		})
	}},
	{"an attempt is given twice", 5, func(e *history.Evidence, r *rand.Rand) bool {
		var first *history.Call
		return pickCall(e, r, history.Claim, func(c *history.Call) bool {
			if len(c.Jobs) == 0 || c.Tx != "" {
				return false
			}
			if first == nil {
				first = c
				return false
			}
			twin := first.Jobs[0]
			twin.Token = c.Jobs[0].Token
			c.Jobs = append(c.Jobs, twin)
			return true
		})
	}},
	{"a claim returns too many jobs of one group", 6, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Claim, func(c *history.Call) bool {
			if len(c.Jobs) < 6 || c.Tx != "" {
				return false
			}
			in := func(key string) bool {
				return slices.ContainsFunc(c.Jobs, func(j history.Job) bool { return j.Key == key })
			}
			for _, other := range e.Calls {
				for i := range other.New {
					if in(other.New[i].Key) {
						other.New[i].Group = "crowd"
					}
				}
				for i := range other.Jobs {
					if in(other.Jobs[i].Key) {
						other.Jobs[i].Group = "crowd"
					}
				}
			}
			for _, j := range e.Final {
				if in(history.Key(j.Payload)) {
					j.Group = "crowd"
				}
			}
			return true
		})
	}},
	{"a claim returns more jobs than it asked for", 6, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Claim, func(c *history.Call) bool {
			if len(c.Jobs) > 0 {
				c.Want = len(c.Jobs) - 1
			}
			return len(c.Jobs) > 0
		})
	}},
	{"an effect is lost", 8, func(e *history.Evidence, r *rand.Rand) bool {
		for id := range e.Effects {
			e.Effects[id]--
			return true
		}
		return false
	}},
	{"an effect happens twice", 8, func(e *history.Evidence, r *rand.Rand) bool {
		for id := range e.Effects {
			e.Effects[id]++
			return true
		}
		return false
	}},
	{"a key is said to be held by a job without it", 9, func(e *history.Evidence, r *rand.Rand) bool {
		return pickCall(e, r, history.Enqueue, func(c *history.Call) bool {
			for i := range c.New {
				if n := &c.New[i]; n.Existing && (c.Tx == "" || endOf(e, c.Tx).Verb == history.Commit) {
					n.UniqueKey = "another"
					return true
				}
			}
			return false
		})
	}},
}...)

// finishedBy reports whether a finish or extend of the claim's first job began before the
// call by ended.
func finishedBy(e *history.Evidence, claim, by *history.Call) bool {
	j := claim.Jobs[0]
	return slices.ContainsFunc(e.Calls, func(c *history.Call) bool {
		named := slices.ContainsFunc(c.Outcomes, func(o dibs.Outcome) bool { return o.ID == j.ID && o.Token == j.Token }) ||
			slices.ContainsFunc(c.Leases, func(l dibs.Lease) bool { return l.ID == j.ID })
		return named && c.Begin.Before(by.End)
	})
}

// countClaims counts how often the job was claimed or resumed.
func countClaims(e *history.Evidence, id int64) (n int) {
	for _, c := range e.Calls {
		for i := range c.Jobs {
			if c.Jobs[i].ID == id {
				n++
			}
		}
	}
	return n
}

// operatorChanged reports whether an operator ever changed the job.
func operatorChanged(e *history.Evidence, id int64) bool {
	return slices.ContainsFunc(e.Calls, func(c *history.Call) bool { return slices.Contains(c.Changed, id) })
}

func TestDamagedRecordsAreFound(t *testing.T) {
	needs.Long(t)
	t.Parallel()
	for left, loads := damages, 1; len(left) > 0; loads++ {
		if loads > 5 {
			t.Fatalf("five loads have no case of %q", left[0].name)
		}
		left = damageALoad(t, left)
	}
}

// damageALoad tries damages on the records of a load, and returns those of which that has no case.
func damageALoad(t *testing.T, all []damage) (left []damage) {
	t.Helper()
	db, r, dir := open(t, "nobody")
	must(t, r.Close())
	seed := rand.Uint64()
	// Leases must be long enough that on a slow machine, too, some jobs finish in time.
	undamaged := load(t, db, dir, 500*time.Millisecond, 1, 1000, seed)
	reportBroken(t, history.Judge(undamaged))
	for i, d := range all {
		e := undamaged
		e.Calls = value[[]*history.Call](t)(history.Read(dir))
		e.Final = value[history.Evidence](t)(history.Collect(t.Context(), db, dir)).Final
		e.Effects = make(map[int64]int)
		for id, n := range undamaged.Effects {
			e.Effects[id] = n
		}
		if !d.do(&e, rand.New(rand.NewPCG(seed, uint64(i)))) {
			left = append(left, d)
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			if v := verdictOn(history.Judge(e), d.promise); len(v.Broken) == 0 {
				t.Errorf("the judge did not find promise %d broken", d.promise)
			}
		})
	}
	return left
}
