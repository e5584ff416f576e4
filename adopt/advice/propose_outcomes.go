package advice

import (
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// outcomes proposes what each outcome sets.
func (p *proposer) outcomes() {
	completed, s := mapping.Set{}, p.states
	put(completed, p.attemptEnd, "$now")
	put(completed, p.finished, "$now")
	if p.finished != nil && p.formatless(*p.finished) {
		p.unsure("completed", "%s would get the time in another format than its rows have: one holds %.40q", p.finished.Name, p.data.sample[p.finished.Name])
	}
	if p.status != nil && len(s.done) == 0 && len(s.fresh) > 0 && (p.finished == nil || p.byStatus()) && p.status.Kind != adopted.Integer {
		s.done = []string{p.likelyDone()}
	}
	if len(s.done) > 0 {
		put(completed, p.status, s.done[0])
	}
	put(completed, p.success, true)
	put(completed, p.processed, true)
	if len(completed) > 0 {
		put(completed, p.result, "$result")
	}
	p.m.Completed = mapping.Change{Set: completed}
	switch {
	case len(completed) > 0:
	case p.keepsEnded() || p.m.Unfinished == "":
		p.unsure("completed", "not known: no column says that a row is done; set one, or write delete: true")
	default:
		p.m.Completed = mapping.Change{Delete: true}
		p.unsure("completed", "rows that are done are DELETED, since no column says that a row is done; make sure that other programs do so, too, or set a column")
	}
	p.failures()
	p.limitAttempts()
}

// limitAttempts proposes after how many attempts a row is dead.
func (p *proposer) limitAttempts() {
	if !p.m.SideTable && (p.attempts == nil || p.m.Dead == nil) {
		return
	}
	if c := p.maxAttempts; c != nil {
		p.m.MaxAttemptsColumn = c.Name
		p.why("max_attempts_column", "%s by its name says how often a row may be tried", c.Name)
		if !c.Null && p.data.filled[c.Name] > 0 && !slices.Contains(p.data.values[c.Name], "0") {
			return
		}
	}
	p.m.MaxAttempts = dibs.DefaultSettings("").MaxAttempts
	p.unsure("max_attempts", "not known: this is the default of dibs")
}

// likelyDone guesses the status of rows that are done: the most frequent value with an
// unknown meaning, since rows that are done stay in a table, and others do not.
func (p *proposer) likelyDone() string {
	for _, t := range p.tallies { // the most frequent first
		if !t.null && slices.Contains(p.states.unknown, t.value) {
			p.unsure("completed", "not known: which value of %s says that a row is done; of the values with an unknown meaning most rows have %.40q", p.status.Name, t.value)
			return t.value
		}
	}
	p.unsure("completed", "not known: which value of %s says that a row is done; %q is made up, and no row has it", p.status.Name, "done")
	return "done"
}

// failures proposes what becomes of rows that have failed for good. It proposes nothing that
// would make them look like completed rows.
func (p *proposer) failures() {
	dead, s := mapping.Set{}, p.states
	sign := "" // column that tells such a row from a completed one
	switch {
	case p.status != nil && len(s.failed) > 0:
		put(dead, p.status, s.failed[0])
		sign = p.status.Name
	case p.status != nil && len(s.all()) > 0:
	case p.success != nil:
		sign = p.success.Name
	case p.failed != nil:
		sign = p.failed.Name
	case p.errorText != nil && (p.finished != nil || p.processed != nil):
		sign = p.errorText.Name
	}
	if e := p.errorText; e != nil {
		put(dead, e, "$error")
		if !p.m.SideTable && isNamed(*e, "error exception failure") {
			put(p.m.PutBack.Set, e, "$error")
		}
	}
	if sign == "" {
		p.noDead()
		return
	}
	put(dead, p.success, false)
	put(dead, p.processed, true)
	p.setEnd(dead, first(s.failed))
	put(dead, p.failed, "$now")
	p.m.Dead = &mapping.Change{Set: dead}
	p.why("dead", "%s tells such a row from completed ones", sign)
	if s.guessed && len(s.failed) > 0 {
		p.unsure("dead", "only the order of the numbers suggests that %s of %s means that a row has failed", s.failed[0], p.status.Name)
	}
	if len(s.cancelled) > 0 {
		cancelled := mapping.Set{}
		put(cancelled, p.status, s.cancelled[0])
		p.setEnd(cancelled, s.cancelled[0])
		put(cancelled, p.cancelled, "$now")
		p.m.Cancelled = &mapping.Change{Set: cancelled}
	}
}

// noDead explains why there is no proposal for dead, and what it could be.
func (p *proposer) noDead() {
	none, name := "no column says that a row has failed for good", "name one that does"
	if s := p.status; s != nil {
		none, name = "no value of "+s.Name+" says that a row has failed for good", "name one, such as dead: {set: {"+s.Name+": failed}}"
	}
	otherwise := ", or set side_table; otherwise such a row is retried for ever"
	if p.m.SideTable {
		otherwise = "; otherwise such a row stays unfinished, and only the side table dibs_adopted says that it is dead"
	}
	p.unsure("dead", "%s; %s%s", none, name, otherwise)
}

// setEnd sets the columns that say when a row ended, unless rows with this status have no
// such time: a failure does not set the time of sending.
func (p *proposer) setEnd(to mapping.Set, value string) {
	put(to, p.attemptEnd, "$now")
	if p.finished == nil {
		return
	}
	needed := p.m.Unfinished == p.isNull(p.finished)
	never := isNamed(*p.finished, "sent") || slices.ContainsFunc(p.tallies, func(t tally) bool {
		return !t.null && t.value == value && t.rows > 0 && t.ended == 0
	})
	if needed || !never {
		put(to, p.finished, "$now")
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
