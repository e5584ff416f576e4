package history

import (
	"slices"

	"github.com/dibs-queue/dibs"
)

// tokens judges that no two claims were given the same token (promise 2). Claims that one
// client made at the same time may share one.
func (j *judge) tokens() {
	owner := make(map[dibs.Token]int32)
	for i, c := range j.Calls {
		if (c.Verb != Claim && c.Verb != Resume) || len(c.Jobs) == 0 {
			continue
		}
		j.checked(2, 1)
		token := c.Jobs[0].Token
		if other, ok := owner[token]; ok && !j.mayShareToken(other, int32(i)) || token.IsZero() {
			j.accuse(2, c.Jobs[0].ID, []int32{other, int32(i)}, "two claims were given the same token %s", token)
		}
		owner[token] = int32(i)
		for at := range c.Jobs {
			if c.Jobs[at].Token != token {
				j.accuse(2, c.Jobs[at].ID, []int32{int32(i)}, "one claim was given two tokens, %s and %s", token, c.Jobs[at].Token)
			}
		}
	}
}

// mayShareToken reports whether a store may have combined two claims: the client is the
// same, the calls overlap, and their jobs differ.
func (j *judge) mayShareToken(a, b int32) bool {
	first, second := j.Calls[a], j.Calls[b]
	return first.Client == second.Client && j.spans[a].lo <= j.spans[b].hi && j.spans[b].lo <= j.spans[a].hi &&
		!slices.ContainsFunc(first.Jobs, func(x Job) bool {
			return slices.ContainsFunc(second.Jobs, func(y Job) bool { return x.ID == y.ID })
		})
}

// owners judges promise 2 for one job: no attempt certainly begins before the one before it
// can have ended.
func (j *judge) owners(l *life) {
	for i := 1; i < len(l.attempts); i++ {
		a, b := &l.attempts[i-1], &l.attempts[i]
		j.checked(2, 1)
		if b.hi >= a.endLo {
			continue
		}
		// Promise 5 covers a number that was given twice, unless the first was rolled
		// back. If both were, either may have come first.
		if b.Attempt == a.Attempt && (!a.rolledBack() || b.lo < a.hi) {
			continue
		}
		first, second := j.Calls[a.call], j.Calls[b.call]
		if second.Verb == Resume && second.Worker == first.Worker {
			continue
		}
		if b.Attempt > a.Attempt+1 && j.mayBeResumed(l, first.Worker, b.hi) {
			continue
		}
		calls := []int32{a.call, b.call}
		for _, e := range append(slices.Clone(a.extends), a.finishes...) {
			if j.spans[e.call].lo <= b.hi {
				calls = append(calls, e.call)
			}
		}
		if second.Verb == Resume {
			j.accuse(2, l.id, calls, "job %d was resumed by %s while it belonged to %s, a worker of another name, until %s at least", l.id, j.holderOf(b), j.holderOf(a), timeText(a.endLo))
			continue
		}
		j.accuse(2, l.id, calls, "job %d was claimed by %s, whose answer came at %s, while it belonged to %s until %s at least: it had two owners", l.id, j.holderOf(b), timeText(b.hi), j.holderOf(a), timeText(a.endLo))
	}
}

// mayBeResumed reports whether a resume without an answer, begun by the time by, may have
// taken the job over from the worker.
func (j *judge) mayBeResumed(l *life, worker string, by int64) bool {
	return slices.ContainsFunc(j.lane(l.queue).resumes, func(n int32) bool {
		return j.Calls[n].Worker == worker && j.spans[n].lo <= by
	})
}
