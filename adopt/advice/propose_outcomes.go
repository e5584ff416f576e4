package advice

import (
	"cmp"
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// outcomes proposes what a claim and each outcome set.
func (p *proposer) outcomes() {
	s := p.states
	if p.finished != nil && p.formatless(*p.finished) {
		p.unsure("completed", "%s would get the time in another format than its rows have: one holds %.40q", p.finished.Name, p.data.sample[p.finished.Name])
	}
	if len(s.done) == 0 && len(s.fresh) > 0 && (p.finished == nil || p.byStatus()) && p.status.Kind != adopted.Integer {
		s.done = []string{p.likelyDone()}
	}
	var running, waiting, keptError any
	if s.showClaims() {
		running, waiting = s.running[0], s.putBack()
	}
	if p.errorText != nil && !p.m.SideTable && isNamed(*p.errorText, "error exception failure") {
		keptError = "$error"
	}
	claim, putBack, completed, dead, cancelled := mapping.Set{}, mapping.Set{}, mapping.Set{}, mapping.Set{}, mapping.Set{}
	for _, row := range []struct {
		column                                     *adopted.Column
		claim, putBack, completed, dead, cancelled any // value that the column gets; nil: it keeps its value
	}{
		{p.status, running, waiting, first(s.done), first(s.failed), first(s.cancelled)},
		{p.processing, true, false, nil, nil, nil},
		{p.attemptEnd, nil, "$now", "$now", "$now", "$now"},
		{p.finished, nil, nil, "$now", p.end(s.failed), p.end(s.cancelled)},
		{p.success, nil, nil, true, false, nil},
		{p.processed, nil, nil, true, true, nil},
		{p.failed, nil, nil, nil, "$now", nil},
		{p.cancelled, nil, nil, nil, nil, "$now"},
		{p.errorText, nil, keptError, nil, "$error", nil},
	} {
		put(claim, row.column, row.claim)
		put(putBack, row.column, row.putBack)
		put(completed, row.column, row.completed)
		put(dead, row.column, row.dead)
		put(cancelled, row.column, row.cancelled)
	}
	p.m.Claim.Set, p.m.PutBack.Set = claim, putBack
	p.completed(completed)
	p.failures(dead, cancelled)
	p.limitAttempts()
}

// completed proposes what becomes of rows that are done.
func (p *proposer) completed(set mapping.Set) {
	switch {
	case len(set) > 0:
		put(set, p.result, "$result")
	case p.keepsEnded() || p.m.Unfinished == "":
		p.unsure("completed", "not known: no column says that a row is done; set one, or write delete: true")
	default:
		p.m.Completed = mapping.Change{Delete: true}
		p.unsure("completed", "rows that are done are DELETED, since no column says that a row is done; make sure that other programs do so, too, or set a column")
		return
	}
	p.m.Completed = mapping.Change{Set: set}
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

// failures proposes what becomes of rows that have failed for good and of cancelled rows. It proposes nothing that
// would make them look like completed rows.
func (p *proposer) failures(dead, cancelled mapping.Set) {
	sign := p.deadSign()
	if sign == nil {
		p.noDead()
		return
	}
	p.m.Dead = &mapping.Change{Set: dead}
	p.why("dead", "%s tells such a row from completed ones", sign.Name)
	if s := p.states; s.guessed && len(s.failed) > 0 {
		p.unsure("dead", "only the order of the numbers suggests that %s of %s means that a row has failed", s.failed[0], p.status.Name)
	}
	if len(p.states.cancelled) > 0 {
		p.m.Cancelled = &mapping.Change{Set: cancelled}
	}
}

// deadSign is the column that tells a row that has failed for good from a completed one; nil: there is none.
func (p *proposer) deadSign() *adopted.Column {
	switch {
	case len(p.states.failed) > 0:
		return p.status
	case len(p.states.all()) > 0:
		return nil
	case p.finished == nil && p.processed == nil: // a row with an error may still be tried again
		return cmp.Or(p.success, p.failed)
	}
	return cmp.Or(p.success, p.failed, p.errorText)
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

// end is what the column finished is set to in a row that ends with the first of these values of the status. It is nil if
// such rows have no time there: a failure does not set the time of sending.
func (p *proposer) end(status []string) any {
	if p.finished == nil || p.endTimeDecides() {
		return "$now"
	}
	if isNamed(*p.finished, "sent") || slices.ContainsFunc(p.tallies, func(t tally) bool {
		return !t.null && t.value == first(status) && t.rows > 0 && t.ended == 0
	}) {
		return nil
	}
	return "$now"
}

// first is the first of some values; nil: there are none.
func first(values []string) any {
	if len(values) == 0 {
		return nil
	}
	return values[0]
}
