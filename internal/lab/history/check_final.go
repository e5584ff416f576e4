package history

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
)

// endOfJob judges how one job ended: it is in one final state, which agrees with every
// acknowledged finish (promise 4) and shows nothing of a refused one (promise 3).
func (j *judge) endOfJob(l *life) {
	if l.final == nil {
		return
	}
	j.checked(4, 1)
	if !l.final.State.Final() {
		j.accuse(4, l.id, l.calls(), "job %d is still %s at the end, attempt %d: it was left behind", l.id, l.final.State, l.final.Attempt)
		return
	}
	for i := range l.attempts {
		j.acknowledged(l, i)
	}
	if !l.explained() {
		j.accuse(3, l.id, l.calls(), "job %d is %s after attempt %d%s, and no call that was accepted or whose answer is unknown did that", l.id, l.final.State, l.final.Attempt, resultText(l.final.Result))
	}
	for _, e := range l.final.Errors {
		if l.knowsAttempt(e.Attempt) && !l.mayHaveWritten(e) {
			j.accuse(3, l.id, l.calls(), "job %d has the error %q of attempt %d, and no call that was accepted or whose answer is unknown wrote it", l.id, e.Error, e.Attempt)
		}
	}
	for i := range l.attempts {
		j.errorKept(l, &l.attempts[i])
	}
}

// errorKept judges that the job keeps the error of a failed attempt, unless newer errors
// have displaced it.
func (j *judge) errorKept(l *life, a *attempt) {
	for _, e := range a.finishes {
		if o := j.outcomeOf(e); o.LeavesError() && j.outcome(e) == accepted {
			j.checked(4, 1)
			if l.errorOf(a.Attempt) != nil || l.overflowed(a.Attempt) {
				return // endOfJob judges which call wrote it
			}
			j.accuse(4, l.id, []int32{a.call, e.call}, "job %d has no error of attempt %d, but %s was told that its error %q is written", l.id, a.Attempt, j.holderOf(a), clip([]byte(o.Error)))
		}
	}
}

// errorOf returns the n-th attempt's entry in the job's list of errors, or nil.
func (l *life) errorOf(n int) *dibs.AttemptError {
	i := slices.IndexFunc(l.final.Errors, func(e dibs.AttemptError) bool { return e.Attempt == n })
	if i < 0 {
		return nil
	}
	return &l.final.Errors[i]
}

// overflowed reports whether newer errors have displaced an error of the n-th attempt.
func (l *life) overflowed(n int) bool {
	return len(l.final.Errors) >= dibs.MaxErrors && l.final.Errors[0].Attempt > n
}

func resultText(result json.RawMessage) string {
	if result == nil {
		return ""
	}
	return " with the result " + clip(result)
}

// calls lists the calls that enqueued, claimed, finished and changed the job.
func (l *life) calls() []int32 {
	calls := []int32{l.born.call}
	for i := range l.attempts {
		calls = append(calls, l.attempts[i].call)
		for _, e := range l.attempts[i].finishes {
			calls = append(calls, e.call)
		}
	}
	for _, e := range l.changes {
		calls = append(calls, e.call)
	}
	return calls
}

// finalState returns the final state that an outcome of the attempt leads to, or "". It
// takes no request to cancel into account.
func (a *attempt) finalState(o *dibs.Outcome) dibs.State {
	row := dibs.RawJob{Attempt: a.Attempt, Excused: a.Excused, MaxAttempts: a.MaxAttempts}
	if state := row.After(*o); state.Final() {
		return state
	}
	return ""
}

// acknowledged judges that a job stays in the final state that the i-th attempt was told,
// unless a call may have requeued it.
func (j *judge) acknowledged(l *life, i int) {
	a := &l.attempts[i]
	for _, e := range a.finishes {
		o, s := j.outcomeOf(e), &j.spans[e.call]
		state := a.finalState(o)
		if state == "" || j.outcome(e) != accepted || l.mayBeRequeued(s.lo, never) {
			continue
		}
		j.checked(4, 1)
		if k := i + 1; k < len(l.attempts) && l.attempts[k].fate == Done && l.attempts[k].Attempt > a.Attempt {
			j.accuse(4, l.id, []int32{a.call, e.call, l.attempts[k].call}, "job %d was %s by %s, and then given to %s: it ended twice", l.id, state, j.holderOf(a), j.holderOf(&l.attempts[k]))
			return
		}
		if state == dibs.Dead && l.final.State == dibs.Cancelled && o.Ending == dibs.EndRetry && l.mayHaveChanged(Cancel, 0, s.hi) {
			state = dibs.Cancelled // its worker was asked to stop, and stopped
		}
		if f := l.final; f.State != state || f.Attempt != a.Attempt || state == dibs.Completed && !sameJSON(f.Result, o.Result) {
			j.accuse(4, l.id, []int32{a.call, e.call}, "job %d is %s after attempt %d%s, but %s was told that it is %s%s: an acknowledged finish was lost", l.id, f.State, f.Attempt, resultText(f.Result), j.holderOf(a), state, resultText(o.Result))
		}
	}
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// explained reports whether anything that may have happened leads to the final state.
func (l *life) explained() bool {
	f := l.final
	if f.State == dibs.Cancelled && f.Cause != 0 { // follower judges why
		return true
	}
	if f.State == dibs.Cancelled && slices.ContainsFunc(l.changes, func(e event) bool { return l.ix.Calls[e.call].Verb == Cancel }) {
		return true
	}
	known := false
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.Attempt != f.Attempt || a.rolledBack() {
			continue
		}
		known = true
		ended := false
		for _, e := range a.finishes {
			o, outcome := l.ix.outcomeOf(e), l.ix.outcome(e)
			if outcome > open {
				continue
			}
			if a.finalState(o) == f.State && (f.State != dibs.Completed || sameJSON(f.Result, o.Result)) {
				return true
			}
			ended = ended || outcome == accepted
		}
		if !ended && f.State == dibs.Dead && a.Attempt-a.Excused >= a.MaxAttempts { // its lease ended
			return true
		}
	}
	// A claim without an answer may have made the last attempt, whose lease then ended.
	return !known && f.Attempt > 0 && f.State == dibs.Dead && f.Attempt-f.Excused >= f.MaxAttempts
}

// knowsAttempt reports whether a claim was answered with the n-th attempt.
func (l *life) knowsAttempt(n int) bool {
	return slices.ContainsFunc(l.attempts, func(a attempt) bool { return a.Attempt == n && !a.rolledBack() })
}

// expired is the error that a store writes for an attempt whose lease ended.
const expired = "lease expired"

// mayHaveWritten reports whether the end of a lease, or a finish that may have been
// accepted, explains the error.
func (l *life) mayHaveWritten(e dibs.AttemptError) bool {
	if e.Error == expired {
		return true
	}
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.Attempt != e.Attempt {
			continue
		}
		for _, f := range a.finishes {
			if l.ix.outcome(f) <= open && strings.HasPrefix(l.ix.outcomeOf(f).Error, e.Error) {
				return true
			}
		}
	}
	return false
}
