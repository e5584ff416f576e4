package history

import (
	"cmp"
	"slices"

	"github.com/dibs-queue/dibs"
)

// endsOnce is the text of promise 8 for adopted tables.
const endsOnce = "Each row ends exactly once: by one accepted outcome, or by another program. What another program has ended stays so, and nobody is given it."

// Owned judges adopted tables, to which other programs add rows: how often rows ended
// (promise 8), who owned them (2), what stale tokens did (3), and how many of a group ran
// at once (6), in this order. Each job of a claim may have its own token, and the table
// need not number the attempts.
func Owned(e Evidence) []Verdict {
	e.renumber()
	j := newJudge(&e)
	j.verdicts[8].Promise = endsOnce
	var l life
	for n := range j.ids {
		j.rebuild(n, &l)
		j.rowEnds(&l)
		j.owners(&l)
		j.fence(&l)
		j.collect(&l)
	}
	j.limits()
	return []Verdict{j.verdicts[8], j.verdicts[2], j.verdicts[3], j.verdicts[6]}
}

// rowEnds judges how a row ended, by the ends that triggers counted.
func (j *judge) rowEnds(l *life) {
	have, elsewhere := j.Effects[l.id], l.endedElsewhere()
	otherCause := len(l.attempts) == 0 || len(elsewhere) > 0 // another cause may have ended the row
	var enders []int32                                       // calls that certainly ended the row
	for _, e := range elsewhere {
		if j.spans[e.call].fate == Done {
			enders = append(enders, e.call)
		}
	}
	for i := range l.attempts {
		a, finished := &l.attempts[i], false
		j.accuseAfterEnd(l, elsewhere, event{place: a.place}, "row %d was given out after another program had ended it")
		for _, e := range a.finishes {
			if j.outcome(e) != accepted {
				continue
			}
			j.accuseAfterEnd(l, elsewhere, e, "an outcome of row %d was accepted after another program had ended it")
			switch finished = true; j.outcomeOf(e).Ending {
			case dibs.EndCompleted:
				enders = append(enders, e.call)
			case dibs.EndRetry, dibs.EndDead, dibs.EndCancelled:
				otherCause = true
			case dibs.EndRelease, dibs.EndSnooze:
				otherCause = otherCause || a.MaxAttempts > 0 && j.attemptsUsed(a)+j.claimsUnanswered(a) >= a.MaxAttempts
			}
		}
		otherCause = otherCause || !finished // the end of the lease may have ended the row
	}
	j.checked(8, 1)
	switch {
	case have > 1 || len(enders) > 1:
		j.accuse(8, l.id, enders, "row %d has ended %d times, and %d calls were told that they ended it", l.id, have, len(enders))
	case have == 0 && len(enders) == 1:
		j.accuse(8, l.id, enders, "row %d has not ended, though that was acknowledged", l.id)
	case have == 1 && len(enders) == 0 && !otherCause:
		j.accuse(8, l.id, l.calls(), "row %d has ended, but no outcome that ends it was accepted", l.id)
	}
}

// attemptsUsed is how many attempts count once a has been released or snoozed.
func (j *judge) attemptsUsed(a *attempt) int {
	used := a.Attempt - a.Excused
	if !j.ReleasesCount {
		used--
	}
	return used
}

// claimsUnanswered is how many claims without an answer may have taken a row after a: their
// attempts count, as their leases have ended.
func (j *judge) claimsUnanswered(a *attempt) (n int) {
	for _, c := range j.lane(j.Calls[a.call].Queue).unknown {
		if j.spans[c].unlockedBy >= a.lo {
			n++
		}
	}
	return n
}

// accuseAfterEnd accuses a call that took effect though the row had certainly been ended before.
func (j *judge) accuseAfterEnd(l *life, elsewhere []event, e event, text string) {
	for _, end := range elsewhere {
		if s := &j.spans[end.call]; s.fate == Done && s.hi < j.spans[e.call].lo && j.outcome(e) == accepted {
			j.accuse(8, l.id, []int32{end.call, e.call}, text, l.id)
		}
	}
}

// renumber numbers the attempts of each row in the order of its claims, unless the table
// gives each attempt its own number.
func (e *Evidence) renumber() {
	claims := map[int64][]*Job{}
	for _, c := range e.Calls {
		for i := range c.Jobs {
			claims[c.Jobs[i].ID] = append(claims[c.Jobs[i].ID], &c.Jobs[i])
		}
	}
	for _, jobs := range claims {
		slices.SortStableFunc(jobs, func(a, b *Job) int { return cmp.Compare(micros(a.ClaimedAt), micros(b.ClaimedAt)) })
		grow := true
		for i := range jobs[1:] {
			grow = grow && jobs[i].Attempt < jobs[i+1].Attempt
		}
		for i, job := range jobs {
			if !grow {
				job.Attempt, job.Excused = i+1, 0
			}
		}
	}
}
