package adopt

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed sql
var files embed.FS

// statement is SQL for one plan, and the names of its parameters in order.
type statement struct {
	text   string
	params []string
}

// args orders values as the statement wants them.
func (s *statement) args(values map[string]any) []any {
	out := make([]any, len(s.params))
	for i, name := range s.params {
		v, ok := values[name]
		if !ok {
			panic("adopt: no value for parameter " + name)
		}
		out[i] = v
	}
	return out
}

// param stands for a parameter until the statement is whole.
func param(name string) string { return "\x00" + name + "\x00" }

var params = regexp.MustCompile("\x00([a-z]+)\x00")

// numbered qualifies the statement's names and gives the parameters their numbers.
func numbered(d dialect, text string) *statement {
	s, mark := &statement{}, d.mark
	s.text = params.ReplaceAllStringFunc(d.qualified(text), func(found string) string {
		name := found[1 : len(found)-1]
		for i, known := range s.params {
			if known == name {
				return mark + strconv.Itoa(i+1)
			}
		}
		s.params = append(s.params, name)
		return mark + strconv.Itoa(len(s.params))
	})
	return s
}

// bare takes the table's name from columns: SQLite's returning does not know it.
func bare(exprs string) string { return strings.ReplaceAll(exprs, `t."`, `"`) }

// render makes a statement from its file.
func render(d dialect, name string, data any) (*statement, error) {
	t, err := template.New(name+".sql").Funcs(template.FuncMap{"param": param, "bare": bare}).ParseFS(files, "sql/"+d.folder+"/"+name+".sql")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return nil, err
	}
	return numbered(d, strings.TrimRight(b.String(), "\n")), nil
}

// piece is what a statement's file is filled in with.
type piece struct {
	*plan
	Ready string // which rows a claim takes
	Mine  bool   // they are the worker's own
	Marks string // what a claim writes in the same statement
	Sets  string // what a change writes; empty: it deletes
	Late  string // which rows are over time
	row   bool   // Out is a whole row, not only its marks
}

// statements are all that a store runs.
type statements struct {
	claim, mark, turn, running, alone, rates, resume, fetch, extend *statement
	completed, dead, cancelled, putBack                             *statement
	late, lateDead                                                  *statement
	lease, held, overdue, settle, drop, move, again                 *statement
	forget, holds, open, look, requeue                              *statement
	list, counts                                                    *statement
}

func (p *plan) statements() (*statements, error) {
	s := &statements{}
	var failed error
	make := func(to **statement, name string, data piece) {
		data.plan = p
		st, err := render(p.d, name, data)
		if err != nil && failed == nil {
			failed = fmt.Errorf("adopt: %s: %w", name, err)
		}
		*to = st
	}
	claimed := piece{Ready: p.readyFor(p.ready), row: true}
	resumed := piece{Ready: p.mine(), Mine: true, row: true}
	if p.d.oneStatement && !p.SideTable && !p.reorders() {
		claimed.Marks = p.claimSets()
		resumed.Marks = claimed.Marks
	} else if p.Marked() {
		make(&s.mark, "mark", piece{Marks: p.claimSets()})
	}
	make(&s.claim, "claim", claimed)
	if p.Claim.LockedBy != "" && !p.SideTable {
		ungrouped := *p
		ungrouped.Mapping.Group = Group{}
		st, err := render(p.d, "claim", piece{plan: &ungrouped, Ready: resumed.Ready, Marks: resumed.Marks, row: true})
		if err != nil {
			return nil, err
		}
		s.resume = st
	}
	p.limits(s, make)
	make(&s.fetch, "fetch", piece{row: true})
	if p.d.rowLocks {
		make(&s.holds, "holds", piece{})
	}
	alias := valuesOf("m")
	make(&s.completed, "change", piece{Sets: p.endSets(p.Completed, alias)})
	if p.Dead != nil {
		make(&s.dead, "change", piece{Sets: p.endSets(*p.Dead, alias)})
	}
	s.cancelled = s.dead
	if p.Cancelled != nil {
		make(&s.cancelled, "change", piece{Sets: p.endSets(*p.Cancelled, alias)})
	}
	if back := p.backSets(alias, "m.dibs_uncounted"); back != "" {
		make(&s.putBack, "change", piece{Sets: back})
	}
	make(&s.list, "list", piece{row: true})
	make(&s.counts, "counts", piece{Ready: p.ready})
	if p.ended() != nil {
		make(&s.rates, "rates", piece{})
	}
	if p.SideTable || p.lockOnly() {
		make(&s.open, "open", piece{})
	}
	if p.SideTable {
		for name, to := range map[string]**statement{
			"lease": &s.lease, "lease_held": &s.held, "lease_late": &s.overdue, "lease_settle": &s.settle,
			"lease_drop": &s.drop, "lease_extend": &s.move, "lease_again": &s.again, "lease_forget": &s.forget, "lease_look": &s.look,
			"lease_requeue": &s.requeue,
		} {
			make(to, name, piece{})
		}
		if late := p.strayLate(); late != "" {
			make(&s.late, "expire", piece{Late: late, Sets: p.backSets(ofLate, "")})
		}
		return s, failed
	}
	p.inRow(s, make)
	return s, failed
}

// limits makes the statements of limits of how many rows may run at once.
func (p *plan) limits(s *statements, make func(**statement, string, piece)) {
	locks := p.d.rowLocks
	if p.Mapping.Group.Column != "" && locks {
		make(&s.turn, "turn", piece{Ready: p.readyFor(p.ready)})
	}
	if p.Concurrency > 0 {
		make(&s.running, "running", piece{})
		if locks {
			make(&s.alone, "alone", piece{})
		}
	}
}

// ofLate are the special values for rows that no outcome gives back.
var ofLate = values{err: "'" + lateError + "'", result: "null", delay: "null"}

// inRow makes the statements of leases that the rows themselves hold.
func (p *plan) inRow(s *statements, make func(**statement, string, piece)) {
	make(&s.extend, "extend", piece{Sets: p.extendSets()})
	if p.ends() {
		late := p.lateWhere()
		if p.MaxAttempts > 0 {
			late += " and not " + p.spent()
		}
		make(&s.late, "expire", piece{Late: late, Sets: p.backSets(ofLate, "")})
	}
	if p.MaxAttempts > 0 {
		// Also where "available" itself lets rows go after some time, others have counted,
		// or a claim that was given back counts all the same.
		over := "(" + p.waiting() + ")"
		if p.ends() {
			over = "((" + p.lateWhere() + ") or " + over + ")"
		}
		make(&s.lateDead, "expire", piece{Late: over + " and " + p.spent(), Sets: p.endSets(*p.Dead, ofLate)})
	}
}

// spent is true for rows whose attempts are used up.
func (p *plan) spent() string { return fmt.Sprintf("%s >= %d", p.attempts(), p.MaxAttempts) }

// reorders reports that a claim writes what rows are ordered by: what it returns could
// not be sorted as it was chosen.
func (p *plan) reorders() bool {
	return slices.ContainsFunc(p.claims(), func(a assignment) bool {
		return slices.ContainsFunc(p.order, func(o ordering) bool { return o.name == a.to.name })
	})
}

// readyFor adds the kinds that a claim asks for.
func (p *plan) readyFor(where string) string {
	if p.Kind == "" {
		return where
	}
	return where + " and " + p.d.isAmong(p.kind.sql(), param("kinds"))
}

// mine is which rows a restarted worker still holds.
func (p *plan) mine() string {
	c, ok := p.on.column(p.Claim.LockedBy)
	if !ok {
		return ""
	}
	where := p.busy + " and " + p.is(c, p.d.cast(param("worker"), c)) + p.live()
	if p.MaxAttempts > 0 {
		where += fmt.Sprintf(" and %s < %d", p.attempts(), p.MaxAttempts)
	}
	return where
}

// live is true while the lease that a row holds lasts.
func (p *plan) live() string {
	switch {
	case p.SideTable:
	case p.timeout != nil:
		return " and " + p.timeout.column.sql() + " > " + p.timeout.now
	case p.started != nil:
		return " and " + p.started.column.sql() + " > " + p.started.ago(p.Lease)
	}
	return ""
}

func (p *plan) lateWhere() string {
	if p.timeout != nil {
		return p.busy + " and " + p.timeout.column.sql() + " <= " + p.timeout.now
	}
	return p.busy + " and " + p.started.column.sql() + " <= " + p.started.ago(p.Lease)
}

// ago is when a claim began whose lease of length d ends now. Its start was
// rounded down, or to the nearest.
func (t *timed) ago(d time.Duration) string {
	return t.after(fmt.Sprintf("-%g", (d + t.grain).Seconds()))
}

func (p *plan) extendSets() string {
	switch {
	case p.timeout != nil:
		return quote(p.timeout.name) + " = " + p.timeout.from(param("lease"))
	case p.started != nil:
		return quote(p.started.name) + " = " + p.started.now
	}
	return ""
}
