package history

import "github.com/dibs-queue/dibs"

// attemptNumbers judges promise 5 for one job.
func (j *judge) attemptNumbers(l *life) {
	var last *attempt // the last attempt that was not rolled back
	highest := 0      // the highest attempt number so far
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.rolledBack() {
			continue
		}
		j.checked(5, 1)
		if a.Attempt-a.Excused > a.MaxAttempts {
			j.accuse(5, l.id, []int32{a.call}, "job %d was given to %s with %d attempts excused: its %d attempts were used up", l.id, j.holderOf(a), a.Excused, a.MaxAttempts)
		}
		if last != nil {
			j.compareAttempts(l, last, a)
		}
		j.gap(l, highest, a.Attempt-1, a.hi, a.call)
		highest = max(highest, a.Attempt)
		if last == nil || a.fate == Done {
			last = a
		}
	}
	f := l.final
	if f == nil {
		return
	}
	switch {
	case f.Attempt < highest && last.fate == Done:
		j.accuse(5, l.id, []int32{last.call}, "job %d has had %d attempts at the end, but %s was given it", l.id, f.Attempt, j.holderOf(last))
	case f.Attempt-f.Excused > f.MaxAttempts:
		j.accuse(5, l.id, l.calls(), "job %d has had %d attempts, %d of them excused, and may have %d", l.id, f.Attempt, f.Excused, f.MaxAttempts)
	default:
		j.gap(l, highest, f.Attempt, never, -1)
	}
	if last != nil && f.Attempt == last.Attempt && last.fate == Done && !l.mayBeRequeued(last.lo, never) {
		if _, most := j.excuses(last); f.Excused > last.Excused+most {
			j.accuse(5, l.id, l.calls(), "job %d has %d excused attempts at the end, at most %d of which were released or snoozed", l.id, f.Excused, last.Excused+most)
		}
	}
}

// compareAttempts judges the attempt b by a, the attempt before it.
func (j *judge) compareAttempts(l *life, a, b *attempt) {
	switch {
	case a.Attempt == b.Attempt && a.fate == Done && b.fate == Done:
		j.accuse(5, l.id, []int32{a.call, b.call}, "attempt %d of job %d was given twice, to %s and to %s", a.Attempt, l.id, j.holderOf(a), j.holderOf(b))
	case a.Attempt < b.Attempt && b.hi < a.lo:
		j.accuse(5, l.id, []int32{a.call, b.call}, "%s was given job %d after %s: attempt numbers only grow", j.holderOf(a), l.id, j.holderOf(b))
	case a.Attempt+1 == b.Attempt && a.fate == Done && !l.mayBeRequeued(a.lo, b.hi):
		fewest, most := j.excuses(a)
		if n := b.Excused - a.Excused; n < fewest || n > most {
			calls := []int32{a.call, b.call}
			for _, e := range a.finishes {
				calls = append(calls, e.call)
			}
			j.accuse(5, l.id, calls, "job %d had %d excused attempts when %s got it and %d when %s did; %d to %d were released or snoozed meanwhile", l.id, a.Excused, j.holderOf(a), b.Excused, j.holderOf(b), fewest, most)
		}
	}
}

// excuses returns how often the attempt was released or snoozed: certainly, and at most.
func (j *judge) excuses(a *attempt) (least, most int) {
	for _, e := range a.finishes {
		if o := j.outcomeOf(e); o.Ending != dibs.EndRelease && o.Ending != dibs.EndSnooze {
			continue
		}
		switch j.outcome(e) {
		case accepted:
			return 1, 1
		case open:
			most = 1
		}
	}
	return 0, most
}

// gap judges the attempt numbers between given and last, which no answer of a claim
// contains: each of them needs a claim without an answer.
func (j *judge) gap(l *life, known, last int, claimedBy int64, call int32) {
	missing := last - known
	if missing <= 0 {
		return
	}
	unknown := 0
	for _, n := range j.lane(l.queue).unknown {
		if s := &j.spans[n]; s.lo <= claimedBy && s.fate != Nothing {
			unknown++
		}
	}
	if unknown < missing {
		j.accuse(5, l.id, append(l.calls(), call), "the attempts %d to %d of job %d were given to nobody: only %d claims of queue %q had no answer", known+1, last, l.id, unknown, l.queue)
	}
}
