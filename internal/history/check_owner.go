package history

import (
	"slices"

	"github.com/dibs-queue/dibs"
)

// tokens judges that one token belongs to one claim (promise 2), or to several that a
// client made at the same time.
func (j *judge) tokens() {
	owner := make(map[dibs.Token]int32)
	for i, c := range j.Calls {
		if (c.Verb != Claim && c.Verb != Resume) || len(c.Jobs) == 0 {
			continue
		}
		j.checked(2, 1)
		token := c.Jobs[0].Token
		if other, ok := owner[token]; ok && !j.together(other, int32(i)) || token.IsZero() {
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

// together reports whether two claims may have been made as one: by one client, while
// both waited, for different jobs.
func (j *judge) together(a, b int32) bool {
	first, second := j.Calls[a], j.Calls[b]
	return first.Client == second.Client && j.spans[a].lo <= j.spans[b].hi && j.spans[b].lo <= j.spans[a].hi &&
		!slices.ContainsFunc(first.Jobs, func(x Job) bool {
			return slices.ContainsFunc(second.Jobs, func(y Job) bool { return x.ID == y.ID })
		})
}

// owners judges promise 2 for one job: each attempt follows on the certain end of the
// one before.
func (j *judge) owners(l *life) {
	for i := 1; i < len(l.attempts); i++ {
		a, b := &l.attempts[i-1], &l.attempts[i]
		j.checked(2, 1)
		if b.hi >= a.endLo {
			continue
		}
		// The same number twice is for promise 5, unless the first was rolled back. Of
		// two that were, either may have come first.
		if b.Attempt == a.Attempt && (!a.trial() || b.lo < a.hi) {
			continue
		}
		first, second := j.Calls[a.call], j.Calls[b.call]
		if second.Verb == Resume && second.Worker == first.Worker {
			continue
		}
		if b.Attempt > a.Attempt+1 && j.resumed(l, first.Worker, b.hi) {
			continue
		}
		shown := []int32{a.call, b.call}
		for _, e := range append(slices.Clone(a.extends), a.finishes...) {
			if j.spans[e.call].lo <= b.hi {
				shown = append(shown, e.call)
			}
		}
		if second.Verb == Resume {
			j.accuse(2, l.id, shown, "job %d was resumed by %s while it belonged to %s, a worker of another name, until %s at least", l.id, j.who(b), j.who(a), show(a.endLo))
			continue
		}
		j.accuse(2, l.id, shown, "job %d was claimed by %s, which was answered at %s, while it belonged to %s until %s at least: it had two owners", l.id, j.who(b), show(b.hi), j.who(a), show(a.endLo))
	}
}

// resumed reports whether a resume without an answer may have taken the job over from
// the worker before by.
func (j *judge) resumed(l *life, worker string, by int64) bool {
	return slices.ContainsFunc(j.lane(l.queue).resumes, func(n int32) bool {
		return j.Calls[n].Worker == worker && j.spans[n].lo <= by
	})
}
