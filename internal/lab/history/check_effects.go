package history

import (
	"fmt"

	"github.com/dibs-queue/dibs"
)

// effects judges promise 8 for one job: each completion in a committed transaction has
// one effect, and any other has none.
func (j *judge) effects(l *life) {
	if j.Effects == nil {
		return
	}
	have := j.Effects[l.id]
	least, most := 0, 0
	var calls []int32
	for i := range l.attempts {
		a := &l.attempts[i]
		for _, e := range a.finishes {
			if j.Calls[e.call].Tx == "" || j.outcomeOf(e).Ending != dibs.EndCompleted {
				continue
			}
			calls = append(calls, a.call, e.call)
			switch j.outcome(e) {
			case accepted:
				least++
				most++
			case open:
				most++
				if j.certainlyCompleted(l, a, e) {
					least++
				} else if j.endedOtherwise(l, a) {
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
		j.accuse(8, l.id, calls, "%d effects of job %d are there, but %s", have, l.id, allowedText(least, most))
	}
}

func allowedText(least, most int) string {
	switch {
	case most == 0:
		return "no transaction that finished it was committed"
	case least == 1 && most == 1:
		return "exactly one transaction that finished it was committed"
	default:
		return fmt.Sprintf("from %d to %d transactions that finished it were committed", least, most)
	}
}

// certainlyCompleted reports whether the finish e, which has no answer, completed the job:
// the job was completed by the attempt a, and no other call can have done it. A claim in a
// transaction that was rolled back leaves its number to the next claim, so other attempts may
// have the number of a.
func (j *judge) certainlyCompleted(l *life, a *attempt, e event) bool {
	f := l.final
	if f == nil || f.State != dibs.Completed || f.Attempt != a.Attempt || l.mayBeRequeued(0, never) {
		return false
	}
	for i := range l.attempts {
		b := &l.attempts[i]
		for _, other := range b.finishes {
			if b.Attempt == a.Attempt && other.call != e.call && j.outcome(other) <= open && j.outcomeOf(other).Ending == dibs.EndCompleted {
				return false
			}
		}
	}
	return true
}

// endedOtherwise reports whether the job certainly ended in another way than by a
// completion of this attempt.
func (j *judge) endedOtherwise(l *life, a *attempt) bool {
	f := l.final
	return f != nil && !l.mayBeRequeued(0, never) && (f.State != dibs.Completed || f.Attempt != a.Attempt)
}
