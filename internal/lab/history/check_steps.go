package history

import "slices"

// steps judges promise 12 for one job: each attempt that asks for the steps is told all that were certainly written, and
// no others, and none is written again with another value. The method fence judges who may write them.
func (j *judge) steps(l *life) {
	var puts, reads []event
	for i := range l.attempts {
		for _, e := range l.attempts[i].steps {
			if j.Calls[e.call].Verb == PutStep {
				puts = append(puts, e)
			} else if j.outcome(e) == accepted {
				reads = append(reads, e)
			}
		}
	}
	for _, r := range reads {
		j.checked(12, 1)
		done := j.Calls[r.call].Steps
		for _, p := range puts {
			if step := j.Calls[p.call].Steps[0]; j.outcome(p) == accepted && j.wroteBefore(p, r) && !slices.Contains(done, step) {
				j.accuse(12, l.id, []int32{p.call, r.call}, "the step %q of job %d was written at %s, and was not among those that the job's worker was told at %s", step.Name, l.id, timeText(j.spans[p.call].hi), timeText(j.spans[r.call].lo))
			}
		}
		for _, step := range done {
			if !slices.ContainsFunc(puts, func(p event) bool { return j.Calls[p.call].Steps[0] == step && j.mayHaveWritten(p, r) }) {
				j.accuse(12, l.id, []int32{r.call}, "the worker of job %d was told at %s that its step %q is done, and no call that was accepted or whose answer is unknown wrote it so", l.id, timeText(j.spans[r.call].hi), step.Name)
			}
		}
	}
	for i, p := range puts {
		for _, q := range puts[i+1:] {
			a, b := j.Calls[p.call].Steps[0], j.Calls[q.call].Steps[0]
			if a.Name == b.Name && a.Sum != b.Sum && j.outcome(p) == accepted && j.outcome(q) == accepted {
				j.accuse(12, l.id, []int32{p.call, q.call}, "the step %q of job %d was written twice, with two values", a.Name, l.id)
			}
		}
	}
}

// inOneTx reports whether two calls are in the same transaction.
func (j *judge) inOneTx(a, b event) bool {
	tx := j.Calls[a.call].Tx
	return tx != "" && tx == j.Calls[b.call].Tx
}

// wroteBefore reports whether the reader r certainly could see what the call p wrote.
func (j *judge) wroteBefore(p, r event) bool {
	return j.spans[p.call].seenHi < j.spans[r.call].lo || j.inOneTx(p, r) && p.call < r.call
}

// mayHaveWritten reports whether the reader r may have seen what the call p wrote.
func (j *judge) mayHaveWritten(p, r event) bool {
	if j.inOneTx(p, r) {
		return j.Calls[p.call].Fate != Nothing && !p.refused
	}
	return j.outcome(p) <= open && j.spans[p.call].seenLo <= j.spans[r.call].hi
}
