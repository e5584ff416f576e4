package adopted

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
)

//go:embed sql
var files embed.FS

// Statement is SQL for one plan, and the names of its parameters in order.
type Statement struct {
	Text   string
	Params []string
}

// Args orders values as the statement wants them.
func (s *Statement) Args(values map[string]any) []any {
	out := make([]any, len(s.Params))
	for i, name := range s.Params {
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
func numbered(d Dialect, text string) *Statement {
	s, mark := &Statement{}, d.Mark
	s.Text = params.ReplaceAllStringFunc(d.Qualified(text), func(found string) string {
		name := found[1 : len(found)-1]
		for i, known := range s.Params {
			if known == name {
				return mark + strconv.Itoa(i+1)
			}
		}
		s.Params = append(s.Params, name)
		return mark + strconv.Itoa(len(s.Params))
	})
	return s
}

// bare takes the table's name from columns: SQLite's returning does not know it.
func bare(exprs string) string { return strings.ReplaceAll(exprs, `t."`, `"`) }

// templates are the files of a database: its own, and those that are the same for all.
func templates(folder string) func() *template.Template {
	return sync.OnceValue(func() *template.Template {
		t := template.New("").Funcs(template.FuncMap{"param": param, "bare": bare})
		return template.Must(t.ParseFS(files, "sql/*.sql", "sql/"+folder+"/*.sql"))
	})
}

// render makes a statement from its file.
func render(d Dialect, name string, data any) (*Statement, error) {
	var b strings.Builder
	if err := d.files().ExecuteTemplate(&b, name+".sql", data); err != nil {
		return nil, err
	}
	return numbered(d, strings.TrimRight(b.String(), "\n")), nil
}

// piece is what a statement's file is filled in with.
type piece struct {
	*Plan
	Ready string // condition of the rows that a claim takes
	Mine  bool   // these are the worker's own
	Marks string // what a claim writes in the same statement
	Sets  string // what a change writes; empty: it deletes
	Late  string // condition of the rows that are over time
	row   bool   // Out is a whole row, not only its marks
}

// Statements are all that a store runs.
type Statements struct {
	Claim, Mark, Turn, Running, Alone, Rates, Resume, Fetch, Extend *Statement
	Completed, Dead, Cancelled, PutBack                             *Statement
	Late, LateDead                                                  *Statement
	Lease, Held, Overdue, Settle, Drop, Move, Again                 *Statement
	Forget, Holds, Open, Look, Requeue                              *Statement
	List, Counts                                                    *Statement
}

func (p *Plan) statements() (*Statements, error) {
	s := &Statements{}
	var failed error
	make := func(to **Statement, name string, data piece) {
		data.Plan = p
		st, err := render(p.Dialect, name, data)
		if err != nil && failed == nil {
			failed = fmt.Errorf("adopt: %s: %w", name, err)
		}
		*to = st
	}
	claimed := piece{Ready: p.readyFor(p.ready), row: true}
	resumed := piece{Ready: p.mine(), Mine: true, row: true}
	if p.Dialect.OneStatement && !p.SideTable && !p.reorders() {
		claimed.Marks = p.claimSets()
		resumed.Marks = claimed.Marks
	} else if p.Marked() {
		make(&s.Mark, "mark", piece{Marks: p.claimSets()})
	}
	make(&s.Claim, "claim", claimed)
	if p.Claim.LockedBy != "" && !p.SideTable {
		ungrouped := *p
		ungrouped.Mapping.Group = mapping.Group{}
		st, err := render(p.Dialect, "claim", piece{Plan: &ungrouped, Ready: resumed.Ready, Marks: resumed.Marks, row: true})
		if err != nil {
			return nil, err
		}
		s.Resume = st
	}
	p.limits(s, make)
	make(&s.Fetch, "fetch", piece{row: true})
	if p.Dialect.RowLocks {
		make(&s.Holds, "holds", piece{})
	}
	alias := valuesOf("m")
	make(&s.Completed, "change", piece{Sets: p.endSets(p.Completed, alias)})
	if p.Dead != nil {
		make(&s.Dead, "change", piece{Sets: p.endSets(*p.Dead, alias)})
	}
	s.Cancelled = s.Dead
	if p.Cancelled != nil {
		make(&s.Cancelled, "change", piece{Sets: p.endSets(*p.Cancelled, alias)})
	}
	if back := p.BackSets(alias, "m.dibs_uncounted"); back != "" {
		make(&s.PutBack, "change", piece{Sets: back})
	}
	make(&s.List, "list", piece{row: true})
	make(&s.Counts, "counts", piece{Ready: p.ready})
	if p.EndedAt() != nil {
		make(&s.Rates, "rates", piece{})
	}
	if p.SideTable || p.LockOnly() {
		make(&s.Open, "open", piece{})
	}
	if p.SideTable {
		for name, to := range map[string]**Statement{
			"lease": &s.Lease, "lease_held": &s.Held, "lease_late": &s.Overdue, "lease_settle": &s.Settle,
			"lease_drop": &s.Drop, "lease_extend": &s.Move, "lease_again": &s.Again, "lease_forget": &s.Forget, "lease_look": &s.Look,
			"lease_requeue": &s.Requeue,
		} {
			make(to, name, piece{})
		}
		if late := p.StrayLate(); late != "" {
			make(&s.Late, "expire", piece{Late: late, Sets: p.BackSets(ofLate, "")})
		}
		return s, failed
	}
	p.inRow(s, make)
	return s, failed
}

// limits makes the statements of limits of how many rows may run at once.
func (p *Plan) limits(s *Statements, make func(**Statement, string, piece)) {
	locks := p.Dialect.RowLocks
	if p.Mapping.Group.Column != "" && locks {
		make(&s.Turn, "turn", piece{Ready: p.readyFor(p.ready)})
	}
	if p.Concurrency > 0 {
		make(&s.Running, "running", piece{})
		if locks {
			make(&s.Alone, "alone", piece{})
		}
	}
}

// ofLate are the special values for rows that no outcome gives back.
var ofLate = Values{Err: "'" + LateError + "'", Result: "null", Delay: "null"}

// inRow makes the statements of leases that the rows themselves hold.
func (p *Plan) inRow(s *Statements, make func(**Statement, string, piece)) {
	make(&s.Extend, "extend", piece{Sets: p.extendSets()})
	if p.Ends() {
		late := p.lateWhere()
		if p.MaxAttempts > 0 {
			late += " and not " + p.spent()
		}
		make(&s.Late, "expire", piece{Late: late, Sets: p.BackSets(ofLate, "")})
	}
	if p.MaxAttempts > 0 {
		// Also where "available" itself lets rows go after some time, others have counted,
		// or a claim that was given back counts all the same.
		over := "(" + p.Waiting() + ")"
		if p.Ends() {
			over = "((" + p.lateWhere() + ") or " + over + ")"
		}
		make(&s.LateDead, "expire", piece{Late: over + " and " + p.spent(), Sets: p.endSets(*p.Dead, ofLate)})
	}
}

// spent is true for rows whose attempts are used up.
func (p *Plan) spent() string { return fmt.Sprintf("%s >= %d", p.attempts(), p.MaxAttempts) }

// reorders reports that a claim writes what rows are ordered by: what it returns could
// not be sorted as it was chosen.
func (p *Plan) reorders() bool {
	return slices.ContainsFunc(p.Claims(), func(a Assignment) bool {
		return slices.ContainsFunc(p.Ordering, func(o OrderColumn) bool { return o.Name == a.To.Name })
	})
}

// readyFor adds the kinds that a claim asks for.
func (p *Plan) readyFor(where string) string {
	if p.Kind == "" {
		return where
	}
	return where + " and " + p.Dialect.isAmong(p.KindColumn.SQL(), param("kinds"))
}

// mine is which rows a restarted worker still holds.
func (p *Plan) mine() string {
	c, ok := p.On.Column(p.Claim.LockedBy)
	if !ok {
		return ""
	}
	where := p.AtWork + " and " + p.is(c, p.Dialect.cast(param("worker"), c))
	if live := p.live(); live != "" {
		where += " and " + live
	}
	if p.MaxAttempts > 0 {
		where += fmt.Sprintf(" and %s < %d", p.attempts(), p.MaxAttempts)
	}
	return where
}

// live is true while the lease that a row holds lasts.
func (p *Plan) live() string {
	switch {
	case p.SideTable:
	case p.Timeout != nil:
		return p.Timeout.Column.SQL() + " > " + p.Timeout.now
	case p.Started != nil:
		return p.Started.Column.SQL() + " > " + p.Started.ago(p.Lease)
	}
	return ""
}

func (p *Plan) lateWhere() string {
	if p.Timeout != nil {
		return p.AtWork + " and " + p.Timeout.Column.SQL() + " <= " + p.Timeout.now
	}
	return p.AtWork + " and " + p.Started.Column.SQL() + " <= " + p.Started.ago(p.Lease)
}

// ago is when a claim began whose lease of length d ends now. Its start was
// rounded down, or to the nearest.
func (t *Timed) ago(d time.Duration) string {
	return t.After(fmt.Sprintf("-%g", (d + t.Grain).Seconds()))
}

func (p *Plan) extendSets() string {
	switch {
	case p.Timeout != nil:
		return Quote(p.Timeout.Name) + " = " + p.Timeout.from(param("lease"))
	case p.Started != nil:
		return Quote(p.Started.Name) + " = " + p.Started.now
	}
	return ""
}
