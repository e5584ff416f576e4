package advice

import (
	"slices"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// outcomes says what finishing a row sets.
func (p *proposer) outcomes() {
	completed, s := mapping.Set{}, p.states
	if p.attemptEnd != nil {
		completed[p.attemptEnd.Name] = "$now"
	}
	if p.finished != nil {
		completed[p.finished.Name] = "$now"
		if p.formatless(*p.finished) {
			p.unsure("completed", "%s gets the time in a format that its rows do not have: they hold such as %.40q", p.finished.Name, p.data.sample[p.finished.Name])
		}
	}
	if p.status != nil && len(s.done) == 0 && len(s.fresh) > 0 && (p.finished == nil || p.byStatus()) && p.status.Kind != adopted.Integer {
		s.done = []string{p.likelyDone()}
	}
	if p.status != nil && len(s.done) > 0 {
		completed[p.status.Name] = p.value(p.status, s.done[0])
	}
	if p.success != nil {
		completed[p.success.Name] = p.bool(p.success, true)
	}
	if p.processed != nil {
		completed[p.processed.Name] = p.bool(p.processed, true)
	}
	if len(completed) == 0 {
		p.unsure("completed", "not known: nothing in the table says that a row is done; set a column, or delete: true")
	}
	if p.result != nil {
		completed[p.result.Name] = "$result"
	}
	p.m.Completed = mapping.Change{Set: completed}
	p.failures()
	if p.m.SideTable || p.attempts != nil && p.m.Dead != nil {
		p.m.MaxAttempts = dibs.DefaultSettings("").MaxAttempts
		p.unsure("max_attempts", "not known: this is the default of dibs")
	}
}

// likelyDone is the value of the status that most of the rows have whose value tells
// nothing by its name: what has ended stays in a table, what is to be done does not.
func (p *proposer) likelyDone() string {
	for _, t := range p.tallies { // the most frequent first
		if !t.null && slices.Contains(p.states.unknown, t.value) {
			p.unsure("completed", "not known: which value of %s says that a row is done; of those whose meaning is not known most rows have %.40q", p.status.Name, t.value)
			return t.value
		}
	}
	p.unsure("completed", "not known: which value of %s says that a row is done; %q is made up, and no row has it", p.status.Name, "done")
	return "done"
}

// failures says what becomes of rows that have failed for good. What a completed row
// would look like, too, is never proposed for them.
func (p *proposer) failures() {
	dead, s := mapping.Set{}, p.states
	told := "" // by what one sees that a row is no completed one
	switch {
	case p.status != nil && len(s.failed) > 0:
		dead[p.status.Name], told = p.value(p.status, s.failed[0]), p.status.Name
	case p.status != nil && len(s.all()) > 0:
	case p.success != nil:
		told = p.success.Name
	case p.errorText != nil && (p.finished != nil || p.processed != nil):
		told = p.errorText.Name
	}
	if e := p.errorText; e != nil {
		dead[e.Name] = "$error"
		if w := words(e.Name); !p.m.SideTable && (slices.Contains(w, "error") || slices.Contains(w, "exception") || slices.Contains(w, "failure")) {
			p.m.PutBack.Set[e.Name] = "$error"
		}
	}
	if told == "" {
		p.noDead()
		return
	}
	if p.success != nil {
		dead[p.success.Name] = p.bool(p.success, false)
	}
	if p.processed != nil {
		dead[p.processed.Name] = p.bool(p.processed, true)
	}
	p.end(dead, first(s.failed))
	p.m.Dead = &mapping.Change{Set: dead}
	p.why("dead", "by %s such a row is told from completed ones", told)
	if s.guessed && p.status != nil {
		p.unsure("dead", "that %s of %s says that a row has failed is guessed by the order of its numbers", s.failed[0], p.status.Name)
	}
	if len(s.cancelled) > 0 {
		cancelled := mapping.Set{p.status.Name: p.value(p.status, s.cancelled[0])}
		p.end(cancelled, s.cancelled[0])
		p.m.Cancelled = &mapping.Change{Set: cancelled}
	}
}

// noDead says that nothing is proposed for dead, and what could be.
func (p *proposer) noDead() {
	without := "; without either it would be tried for ever"
	if p.m.SideTable {
		without = "; without one, it stays unfinished, and only dibs_adopted beside the table says that it is dead"
	}
	switch by := p.status; {
	case by != nil && p.m.SideTable:
		p.unsure("dead", "no value of %s says that a row has failed for good; name one, such as dead: {set: {%[1]s: failed}}%s", by.Name, without)
	case by != nil:
		p.unsure("dead", "no value of %s says that a row has failed for good; name one, such as dead: {set: {%[1]s: failed}}, or set side_table%s", by.Name, without)
	case p.m.SideTable:
		p.unsure("dead", "no column says that a row has failed for good; name one that does%s", without)
	default:
		p.unsure("dead", "no column says that a row has failed for good; name one that does, or set side_table%s", without)
	}
}

// end sets the times that say when a row ended, unless rows with that value of the
// status have none: a date of sending is not set by a failure.
func (p *proposer) end(to mapping.Set, value string) {
	if p.attemptEnd != nil {
		to[p.attemptEnd.Name] = "$now"
	}
	if p.finished == nil {
		return
	}
	needed := p.m.Unfinished == p.cond(p.finished, " is null")
	never := slices.Contains(words(p.finished.Name), "sent") || slices.ContainsFunc(p.tallies, func(t tally) bool {
		return !t.null && t.value == value && t.rows > 0 && t.ended == 0
	})
	if needed || !never {
		to[p.finished.Name] = "$now"
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
