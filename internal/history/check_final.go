package history

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
)

// end judges how one job ended: in one final state (promise 4), which shows what was
// acknowledged (4) and nothing that was refused (3).
func (j *judge) end(l *life) {
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
	if !l.explains() {
		j.accuse(3, l.id, l.calls(), "job %d is %s after attempt %d%s, and no call that was accepted or whose answer is unknown did that", l.id, l.final.State, l.final.Attempt, resultText(l.final.Result))
	}
	for _, e := range l.final.Errors {
		if l.numbered(e.Attempt) && !l.wrote(e) {
			j.accuse(3, l.id, l.calls(), "job %d has the error %q of attempt %d, and no call that was accepted or whose answer is unknown wrote it", l.id, e.Error, e.Attempt)
		}
	}
	for i := range l.attempts {
		j.remembered(l, &l.attempts[i])
	}
}

// remembered judges that the error of a failed attempt is there, unless it had to go
// for newer ones.
func (j *judge) remembered(l *life, a *attempt) {
	for _, e := range a.finishes {
		if o := j.outcomeOf(e); o.LeavesError() && j.outcome(e) == accepted {
			j.checked(4, 1)
			if l.errorOf(a.Attempt) != nil || l.overflowed(a.Attempt) {
				return // end looks at whose error it is
			}
			j.accuse(4, l.id, []int32{a.call, e.call}, "job %d has no error of attempt %d, but %s was told that its error %q is written", l.id, a.Attempt, j.who(a), clip([]byte(o.Error)))
		}
	}
}

// errorOf is the entry of the n-th attempt in the error history, or nil.
func (l *life) errorOf(n int) *dibs.AttemptError {
	i := slices.IndexFunc(l.final.Errors, func(e dibs.AttemptError) bool { return e.Attempt == n })
	if i < 0 {
		return nil
	}
	return &l.final.Errors[i]
}

// overflowed reports whether an entry of the n-th attempt had to go for newer ones.
func (l *life) overflowed(n int) bool {
	return len(l.final.Errors) >= dibs.MaxErrors && l.final.Errors[0].Attempt > n
}

func resultText(result json.RawMessage) string {
	if result == nil {
		return ""
	}
	return " with the result " + clip(result)
}

// calls are those that say most about a job: its attempts, finishes and changes.
func (l *life) calls() []int32 {
	shown := []int32{l.born.call}
	for i := range l.attempts {
		shown = append(shown, l.attempts[i].call)
		for _, e := range l.attempts[i].finishes {
			shown = append(shown, e.call)
		}
	}
	for _, e := range l.changes {
		shown = append(shown, e.call)
	}
	return shown
}

// ends is the final state that an outcome of the attempt leads to, if any. What comes of a
// cancellation, others look at.
func (a *attempt) ends(o *dibs.Outcome) dibs.State {
	row := dibs.RawJob{Attempt: a.Attempt, Excused: a.Excused, MaxAttempts: a.MaxAttempts}
	if state := row.After(*o); state.Final() {
		return state
	}
	return ""
}

// acknowledged judges that what the i-th attempt was told to have ended for good
// stays so, unless somebody may have requeued it.
func (j *judge) acknowledged(l *life, i int) {
	a := &l.attempts[i]
	for _, e := range a.finishes {
		o, s := j.outcomeOf(e), &j.spans[e.call]
		state := a.ends(o)
		if state == "" || j.outcome(e) != accepted || l.requeued(s.lo, never) {
			continue
		}
		j.checked(4, 1)
		if k := i + 1; k < len(l.attempts) && l.attempts[k].fate == Done && l.attempts[k].Attempt > a.Attempt {
			j.accuse(4, l.id, []int32{a.call, e.call, l.attempts[k].call}, "job %d was %s by %s, and then given to %s: it ended twice", l.id, state, j.who(a), j.who(&l.attempts[k]))
			return
		}
		if state == dibs.Dead && l.final.State == dibs.Cancelled && o.Ending == dibs.EndRetry && l.changed(Cancel, 0, s.hi) {
			state = dibs.Cancelled // whoever runs it was asked to stop, and did
		}
		if f := l.final; f.State != state || f.Attempt != a.Attempt || state == dibs.Completed && !sameJSON(f.Result, o.Result) {
			j.accuse(4, l.id, []int32{a.call, e.call}, "job %d is %s after attempt %d%s, but %s was told that it is %s%s: an acknowledged finish was lost", l.id, f.State, f.Attempt, resultText(f.Result), j.who(a), state, resultText(o.Result))
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

// explains reports whether anything that may have happened leads to the final state.
func (l *life) explains() bool {
	f := l.final
	if f.State == dibs.Cancelled && slices.ContainsFunc(l.changes, func(e event) bool { return l.ix.Calls[e.call].Verb == Cancel }) {
		return true
	}
	known := false
	for i := range l.attempts {
		a := &l.attempts[i]
		if a.Attempt != f.Attempt || a.trial() {
			continue
		}
		known = true
		ended := false
		for _, e := range a.finishes {
			o, outcome := l.ix.outcomeOf(e), l.ix.outcome(e)
			if outcome > open {
				continue
			}
			if a.ends(o) == f.State && (f.State != dibs.Completed || sameJSON(f.Result, o.Result)) {
				return true
			}
			ended = ended || outcome == accepted
		}
		if !ended && f.State == dibs.Dead && a.Attempt-a.Excused >= a.MaxAttempts { // its lease ended
			return true
		}
	}
	// Where it was claimed in a call without an answer, its lease ended.
	return !known && f.Attempt > 0 && f.State == dibs.Dead && f.Attempt-f.Excused >= f.MaxAttempts
}

// numbered reports whether somebody is known to have had the n-th attempt.
func (l *life) numbered(n int) bool {
	return slices.ContainsFunc(l.attempts, func(a attempt) bool { return a.Attempt == n && !a.trial() })
}

// expired is the error of an attempt whose lease ended.
const expired = "lease expired"

// wrote reports whether the error is that of a lease that ended, or of a finish that
// may have been accepted.
func (l *life) wrote(e dibs.AttemptError) bool {
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
