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

// Statement is SQL with the names of its parameters in order.
type Statement struct {
	Text   string
	Params []string
	Parts  []*Statement // see Query; none: the text is one statement
}

// Args lists the values of the statement's parameters in order.
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

// param is a placeholder for a parameter, which numbered replaces.
func param(name string) string { return "\x00" + name + "\x00" }

var params = regexp.MustCompile("\x00([a-z]+)\x00")

// numbered qualifies the names in a statement and replaces placeholders with numbered parameters.
func numbered(d Dialect, text string) *Statement {
	s, mark := &Statement{}, d.Mark
	s.Text = params.ReplaceAllStringFunc(d.Qualified(text), func(found string) string {
		name := found[1 : len(found)-1]
		if d.unnumbered {
			s.Params = append(s.Params, name)
			return mark
		}
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

// bare removes the alias t from columns: SQLite's returning does not know it.
func bare(exprs string) string { return strings.ReplaceAll(exprs, `t."`, `"`) }

// templates parses the files of a database: those in its folder, and those for all databases.
func templates(folder string) func() *template.Template {
	return sync.OnceValue(func() *template.Template {
		t := template.New("").Funcs(template.FuncMap{"param": param, "bare": bare})
		return template.Must(t.ParseFS(files, "sql/*.sql", "sql/"+folder+"/*.sql"))
	})
}

// render makes a statement from its template.
func render(d Dialect, name string, data any) (*Statement, error) {
	var b strings.Builder
	if err := d.files().ExecuteTemplate(&b, name+".sql", data); err != nil {
		return nil, err
	}
	s := numbered(d, strings.TrimRight(b.String(), "\n"))
	if parts := strings.Split(b.String(), then); len(parts) > 1 {
		for _, part := range parts {
			s.Parts = append(s.Parts, numbered(d, strings.TrimSpace(part)))
		}
	}
	return s, nil
}

// piece holds the values for a statement's template.
type piece struct {
	*Plan
	Ready string // condition for the rows that a claim takes
	Mine  bool   // the claim takes rows that the worker itself holds
	Marks string // assignments that a claim makes in the same statement
	Sets  string // assignments of a change; empty: it deletes the row
	Late  string // condition for rows whose lease has ended
	Named bool   // only rows of the parameter batch
	Trial bool   // the side table is only for a trial, on a database that cannot undo its creation
	row   bool   // Out selects a whole row, not only its marks
}

// Statements holds the statements of a store. A nil statement is not needed for the mapping.
type Statements struct {
	Claim, Mark, Turn, Running, Alone, Rates, Resume, Fetch, Extend *Statement
	Completed, Dead, Cancelled, PutBack                             *Statement
	Late, LateKeys, LateNamed                                       *Statement
	LateDead, LateDeadKeys, LateDeadNamed                           *Statement
	TryClaim, TryMark                                               *Statement // a claim in two steps, to find rows that the table refuses to have claimed
	Lease, Held, Overdue, Settle, Drop, Move, Again                 *Statement
	Forget, Holds, Open, Look, Requeue                              *Statement
	List, Counts, Full                                              *Statement
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
	if s.TryClaim, s.TryMark = s.Claim, s.Mark; claimed.Marks != "" {
		make(&s.TryClaim, "claim", piece{Ready: claimed.Ready, row: true})
		make(&s.TryMark, "mark", piece{Marks: claimed.Marks})
	}
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
	p.outcomes(s, make)
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
			p.expiry(make, &s.Late, &s.LateKeys, &s.LateNamed, piece{Late: late, Sets: p.BackSets(lateValues, "")})
		}
		return s, failed
	}
	p.inRow(s, make)
	return s, failed
}

// outcomes makes the statements that end a claim.
func (p *Plan) outcomes(s *Statements, make func(**Statement, string, piece)) {
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
}

// limits makes the statements that limit how many rows run at once.
func (p *Plan) limits(s *Statements, make func(**Statement, string, piece)) {
	locks := p.Dialect.RowLocks
	if p.Mapping.Group.Column != "" && locks {
		make(&s.Turn, "turn", piece{Ready: p.readyFor(p.ready)})
	}
	if p.Mapping.Group.Column != "" {
		make(&s.Full, "full", piece{Ready: p.ready + " and " + piece{Plan: p}.NotPassed()})
	}
	if p.Concurrency > 0 {
		make(&s.Running, "running", piece{})
		if locks {
			make(&s.Alone, "alone", piece{})
		}
	}
}

// lateValues are the special values for rows whose lease has ended.
var lateValues = Values{Err: "'" + LateError + "'", Result: "null", Delay: "null"}

// inRow makes the statements for leases in the adopted table itself.
func (p *Plan) inRow(s *Statements, make func(**Statement, string, piece)) {
	make(&s.Extend, "extend", piece{Sets: p.extendSets()})
	if p.Ends() {
		late := p.lateWhere()
		if p.LimitsAttempts() {
			late += " and not " + p.spent()
		}
		p.expiry(make, &s.Late, &s.LateKeys, &s.LateNamed, piece{Late: late, Sets: p.BackSets(lateValues, "")})
	}
	if p.LimitsAttempts() {
		// A row that waits can have used up its attempts, too: "available" may let a claim end,
		// other programs may count attempts, and a released claim may count as one.
		over := "(" + p.Waiting() + ")"
		if p.Ends() {
			over = "((" + p.lateWhere() + ") or " + over + ")"
		}
		p.expiry(make, &s.LateDead, &s.LateDeadKeys, &s.LateDeadNamed, piece{Late: over + " and " + p.spent(), Sets: p.endSets(*p.Dead, lateValues)})
	}
}

// expiry makes the statements that end claims with one outcome: of all rows that are late, the keys of these, and of
// named ones.
func (p *Plan) expiry(make func(**Statement, string, piece), all, keys, named **Statement, data piece) {
	make(all, "expire", data)
	make(keys, "late", data)
	data.Named = true
	make(named, "expire", data)
}

// reorders reports whether a claim writes a column of the claim order. Then the statement that
// writes cannot return rows in the order in which it chose them.
func (p *Plan) reorders() bool {
	return slices.ContainsFunc(p.Claims(), func(a Assignment) bool {
		return slices.ContainsFunc(p.Ordering, func(o OrderColumn) bool { return o.Name == a.To.Name })
	})
}

// readyFor adds to a condition the kinds that a claim asks for, and excludes rows that are passed over.
func (p *Plan) readyFor(where string) string {
	where += " and " + piece{Plan: p}.NotPassed()
	if p.Kind == "" {
		return where
	}
	return where + " and " + p.Dialect.isAmong(p.KindColumn.SQL(), param("kinds"))
}

// mine is a condition for the rows that a restarted worker still holds.
func (p *Plan) mine() string {
	c, ok := p.On.Column(p.Claim.LockedBy)
	if !ok {
		return ""
	}
	where := p.AtWork + " and " + p.is(c, p.Dialect.cast(param("worker"), c))
	if live := p.live(); live != "" {
		where += " and " + live
	}
	if p.LimitsAttempts() {
		where += " and not " + p.spent()
	}
	return where
}

// live is a condition for rows whose lease lasts; empty: rows hold no leases that end.
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

// ago is SQL for the start of a claim whose lease of length d ends now. It allows for the
// rounding of that start.
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
