package history

import (
	"fmt"

	"github.com/dibs-queue/dibs"
)

// effects judges promise 8 for one job: an effect for each completion in a committed
// transaction, none for any other.
func (j *judge) effects(l *life) {
	if j.Effects == nil {
		return
	}
	have := j.Effects[l.id]
	least, most := 0, 0
	var shown []int32
	for i := range l.attempts {
		a := &l.attempts[i]
		for _, e := range a.finishes {
			if j.Calls[e.call].Tx == "" || j.outcomeOf(e).Ending != dibs.EndCompleted {
				continue
			}
			shown = append(shown, a.call, e.call)
			switch j.outcome(e) {
			case accepted:
				least++
				most++
			case open:
				most++
				if j.only(l, a, e) {
					least++
				} else if j.other(l, a) {
					most--
				}
			}
		}
	}
	if most == 0 && have == 0 {
		return
	}
	j.checked(8, 1)
	if have < least || have > most {
		j.accuse(8, l.id, shown, "%d effects of job %d are there, but %s", have, l.id, allowed(least, most))
	}
}

func allowed(least, most int) string {
	switch {
	case most == 0:
		return "no transaction that finished it was committed"
	case least == 1 && most == 1:
		return "exactly one transaction that finished it was committed"
	default:
		return fmt.Sprintf("from %d to %d transactions that finished it were committed", least, most)
	}
}

// only reports whether the unknown finish e is the only call that can have completed
// the job, and the job was completed by this attempt.
func (j *judge) only(l *life, a *attempt, e event) bool {
	f := l.final
	if f == nil || f.State != dibs.Completed || f.Attempt != a.Attempt || l.requeued(0, never) {
		return false
	}
	for _, other := range a.finishes {
		if other.call != e.call && j.outcome(other) <= open && j.outcomeOf(other).Ending == dibs.EndCompleted {
			return false
		}
	}
	return true
}

// other reports whether the job certainly ended otherwise than by this attempt's
// completion.
func (j *judge) other(l *life, a *attempt) bool {
	f := l.final
	return f != nil && !l.requeued(0, never) && (f.State != dibs.Completed || f.Attempt != a.Attempt)
}
