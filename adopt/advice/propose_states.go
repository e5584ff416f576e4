package advice

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// tally counts the rows for each value of the status, the most frequent first.
// A column with too many different values is no status.
func (p *proposer) tally(ctx context.Context) {
	if p.status == nil {
		return
	}
	ended := "null"
	if p.finished != nil {
		ended = p.dialect.AsText(p.finished.SQL())
	}
	few := true
	if p.tallies, few = talliesOf(p.look(ctx, "%s", tallySQL(p.dialect.AsText(p.status.SQL()), ended, fmt.Sprintf("%s t limit %d", p.table.Quoted(), proposeRows)))); !few {
		p.status, p.tallies = nil, nil
		return
	}
	p.states = p.statesOf(*p.status)
}

// byStatus reports whether the values of the status, by their names, show which rows are to be done.
func (p *proposer) byStatus() bool {
	return len(p.states.fresh) > 0 && len(p.tallies)+len(p.states.all()) > 2 && !p.states.guessed
}

// discuss lists the values of the status, and says which of their rows will not be claimed.
func (p *proposer) discuss() {
	if p.status == nil || len(p.tallies) < 2 && len(p.states.unknown) == 0 {
		return
	}
	name, s := p.status.Name, p.states
	p.why("unfinished", "in the rows that were read, %s has %s", name, withCounts(p.tallies, allRows))
	unended := func(t tally) int64 { return t.rows - t.ended }
	if p.endTimeDecides() {
		if left := withCounts(p.tallies, unended); left != "" {
			p.unsure("unfinished", "all rows without %s would be done, whatever their %s: %s. If some must not be, exclude them by %s", p.finished.Name, name, left, name)
		}
		return
	}
	open := func(t tally) bool { return !t.null && slices.Contains(s.open(), t.value) }
	closed := func(t tally) bool { return !open(t) }
	unclear := func(t tally) bool { return t.null || slices.Contains(s.unknown, t.value) }
	switch unclear := withCounts(which(p.tallies, unclear), allRows); {
	case unclear != "":
		p.unsure("unfinished", "rows with these values of %s are not claimed, since their meaning is not known: %s. Add those that are to be done", name, unclear)
	case len(s.unknown) > 0:
		p.unsure("unfinished", "the meaning of these values of %s, which no row has so far, is not known: %s. Add those that are to be done", name, list(s.unknown))
	}
	if s.guessed {
		p.unsure("unfinished", "the meaning of the numbers of %s is guessed from their order", name)
	}
	if p.finished == nil {
		return
	}
	if again := withCounts(which(p.tallies, open), func(t tally) int64 { return t.ended }); again != "" {
		p.unsure("unfinished", "these rows would be claimed although they have %s: %s", p.finished.Name, again)
	}
	if left := withCounts(which(p.tallies, closed), unended); left != "" {
		p.unsure("unfinished", "these rows are not claimed although they have no %s: %s", p.finished.Name, left)
	}
}

// guessDone takes a value of the status to mean that a row is done if its own name has no
// known meaning and all of its rows have ended.
func (p *proposer) guessDone() {
	for _, t := range p.tallies {
		if !t.null && slices.Contains(p.states.unknown, t.value) && t.ended == t.rows {
			p.states.done = []string{t.value}
			p.states.unknown = slices.DeleteFunc(p.states.unknown, func(v string) bool { return v == t.value })
			p.unsure("completed", "%s is taken to mean that a row is done, since all its rows have %s", withCounts([]tally{t}, allRows), p.finished.Name)
			return
		}
	}
}

// states groups the values of a status column by their meaning.
type states struct {
	fresh, running, done, failed, cancelled, unknown []string
	guessed                                          bool // the meaning follows from the order of numbers, not from names
}

// showClaims reports whether a status tells the rows that wait from those that run.
func (s states) showClaims() bool { return len(s.fresh) > 0 && len(s.running) > 0 }

// putBack is the status of a row that waits again: one for retries, if there is one.
func (s states) putBack() string {
	i := slices.IndexFunc(s.fresh, func(v string) bool { return strings.Contains(" retryable retry retrying ", " "+v+" ") })
	return s.fresh[max(i, 0)]
}

func (s states) open() []string { return slices.Concat(s.fresh, s.running) }

func (s states) all() []string {
	return slices.Concat(s.fresh, s.running, s.done, s.failed, s.cancelled, s.unknown)
}

// These lists give the known meanings of a status, between spaces.
const (
	freshNames     = " new pending queued waiting ready open available todo created submitted requested idle unprocessed to_do to_send to_process to_run unsent not_started notstarted enqueued initial n q p w "
	laterNames     = " scheduled retryable retry retrying delayed " // statuses of rows that wait for a time, if a column holds that time
	runningNames   = " running processing started in_progress inprogress in_process working locked active claimed taken executing busy sending shipping delivering uploading importing exporting printing r i "
	doneNames      = " done complete completed finished success succeeded successful ok processed sent closed handled d c s f "
	failedNames    = " failed failure error errored dead aborted discarded rejected faulted bounced undeliverable e x "
	cancelledNames = " cancelled canceled "
)

// statesOf groups the values that a status column has, or may have.
func (p *proposer) statesOf(c adopted.Column) states {
	var values []string
	for _, t := range p.tallies {
		if !t.null {
			values = append(values, t.value)
		}
	}
	fresh := unquoted(c.Def)
	for _, v := range append(p.data.allowed[c.Name], fresh) {
		if v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	var s states
	running := p.oneAtATime(c)
	if c.Kind == adopted.Integer && running == "" {
		return byNumber(values, fresh)
	}
	later := ""
	if p.notBefore != nil {
		later = laterNames
	}
	type meaning struct {
		names string
		of    *[]string // values that have the meaning
	}
	meanings := []meaning{
		{freshNames + later, &s.fresh}, {runningNames, &s.running}, {doneNames, &s.done}, {failedNames, &s.failed}, {cancelledNames, &s.cancelled}, {"", &s.unknown},
	}
	for _, v := range values {
		name := " " + strings.Join(words(v), "_") + " "
		switch i := slices.IndexFunc(meanings, func(m meaning) bool { return m.names == "" || strings.Contains(m.names, name) }); {
		case v == running:
			s.running = append(s.running, v)
		case v == fresh:
			s.fresh = append([]string{v}, s.fresh...)
		case c.Kind == adopted.Integer: // the meaning of other numbers is not known
			s.unknown = append(s.unknown, v)
		default:
			*meanings[i].of = append(*meanings[i].of, v)
		}
	}
	return s
}

// oneAtATime is the status that a unique index allows only one row of each group to have;
// empty: there is no such index.
func (p *proposer) oneAtATime(c adopted.Column) string {
	for _, x := range p.table.Indexes {
		if x.Unique && p.group != nil && slices.Equal(x.Columns, []string{p.group.Name}) {
			for _, v := range indexed(x, c) {
				return v
			}
		}
	}
	return ""
}

// byNumber takes numbers in ascending order, from that of a new row on, to mean new, running, done and failed. Two
// numbers mean new and done.
func byNumber(values []string, fresh string) states {
	s := states{guessed: true}
	slices.SortFunc(values, func(a, b string) int { return int(adopted.Atoi(a) - adopted.Atoi(b)) })
	first := max(slices.Index(values, fresh), 0)
	meanings := []*[]string{&s.fresh, &s.running, &s.done, &s.failed}
	if len(values)-first == 2 {
		meanings = []*[]string{&s.fresh, &s.done}
	}
	for i, v := range values {
		to := &s.unknown
		if i >= first && i-first < len(meanings) {
			to = meanings[i-first]
		}
		*to = append(*to, v)
	}
	return s
}
