package adopt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The conditions and what claims and outcomes write must fit: a claimed row must not
// be available any more, a completed one not unfinished. Nothing is written to see
// that: the conditions are evaluated over rows as they would be afterwards, of some
// that are available now, or of one as it is inserted by default.

const (
	lifeRows = 100                    // how many rows are looked at
	lifeTime = 500 * time.Millisecond // and for how long at most
)

// stage is a row as something leaves it, and what must not be true of it then.
type stage struct {
	field  string
	rows   string // a query
	bad    string
	unless bool // only if it is so for every row: such as one whose attempts are used up
	why    string
}

func (p *plan) checkLife(ctx context.Context, db *sql.DB, conds []*condition) error {
	if err := p.checkNamed(conds); err != nil {
		return err
	}
	l, ok := p.life(conds)
	if !ok {
		return nil
	}
	real := "select " + l.columns("t.") + " from " + p.Table + " t where " + p.waiting() + fmt.Sprintf(" limit %d", lifeRows)
	seen, err := l.judge(ctx, db, real)
	if err != nil || seen > 0 {
		return err
	}
	if row, ok := l.inserted(); ok {
		_, err = l.judge(ctx, db, "select "+l.columns("t.")+" from (select "+row+") t where "+p.waiting())
	}
	return err
}

// checkNamed finds without any row what can never be right: a claim that writes
// nothing that the condition for available rows looks at.
func (p *plan) checkNamed(conds []*condition) error {
	i := slices.IndexFunc(conds, func(c *condition) bool { return c.field == "available" })
	if i < 0 || p.SideTable || p.lockOnly() || conds[i].has("select") {
		return nil
	}
	claims := p.claims()
	looks := func(c column) bool { return conds[i].names(c) }
	if conds[i].wholeRow() || slices.ContainsFunc(p.on.columns, func(c column) bool { return c.generated && looks(c) }) {
		return nil
	}
	if slices.ContainsFunc(claims, func(a assignment) bool { return looks(a.to) }) {
		return nil
	}
	names := make([]string, len(claims))
	for i, a := range claims {
		names[i] = a.to.name
	}
	return invalid("claim", "writes %s, and \"available\" looks at none of it: a row would be claimed for ever; have claim.set change what makes it available",
		strings.Join(names, ", "))
}

// waiting is true for rows that nobody is at, whenever their time comes.
func (p *plan) waiting() string {
	if p.Available == "" {
		return p.Open
	}
	return p.Open + " and (" + p.Available + ")"
}

// life is what is needed of a row to judge the conditions over it.
type life struct {
	*plan
	cols   []column
	stages func(rows string) []stage
}

// life is false if the conditions cannot be judged over rows that are not in the table.
func (p *plan) life(conds []*condition) (*life, bool) {
	l := &life{plan: p}
	ends := values{err: "'an error'", result: "null", delay: "null"}
	writes := slices.Concat(p.claims(), p.backs(ends, ""), p.assign(p.Completed.Set, ends))
	for _, c := range []*Change{p.Dead, p.Cancelled} {
		if c != nil {
			writes = append(writes, p.assign(c.Set, ends)...)
		}
	}
	for _, c := range p.on.columns {
		named := slices.ContainsFunc(conds, func(d *condition) bool { return d.names(c) })
		if named && c.computed {
			return nil, false // it would have to be made anew
		}
		written := slices.ContainsFunc(writes, func(a assignment) bool { return a.to.name == c.name })
		if named || written || c.name == p.Claim.Attempts || c.name == p.NotBefore {
			l.cols = append(l.cols, c)
		}
	}
	if len(l.cols) == 0 {
		return nil, false
	}
	l.stages = func(rows string) []stage {
		claimed := l.after(rows, p.claims())
		all := []stage{}
		if !p.SideTable && !p.lockOnly() {
			all = append(all, stage{
				"claim", claimed, p.waiting(), false,
				"leaves rows available: they would be claimed for ever; have claim.set write what \"available\" looks at",
			})
		}
		if p.Marked() {
			all = append(all,
				stage{
					"unfinished", claimed, "(" + p.Open + ") is not true", false,
					"is not true of a row that was claimed, so that every outcome would be refused; a claim must not end rows",
				},
				stage{
					"running", claimed, "(" + p.busy + ") is not true", false,
					"is not true of a row that was claimed, so that every outcome would be refused; it must be true of what claim writes",
				},
				stage{
					"put_back", l.after(claimed, p.backs(ends, "")), "(" + p.waiting() + ") is not true", true,
					"does not make a claimed row available again; set what \"available\" looks at",
				})
		}
		for _, e := range []struct {
			field string
			c     *Change
		}{{"completed", &p.Completed}, {"dead", p.Dead}, {"cancelled", p.Cancelled}} {
			if e.c != nil && !e.c.Delete {
				all = append(all, stage{
					e.field, l.after(claimed, p.assign(e.c.Set, ends)), p.Open, false,
					"leaves the row unfinished: it would be done again; set what \"unfinished\" looks at",
				})
			}
		}
		return all
	}
	return l, true
}

func (l *life) columns(of string) string {
	parts := make([]string, len(l.cols))
	for i, c := range l.cols {
		parts[i] = of + quote(c.name)
	}
	return strings.Join(parts, ", ")
}

// after is a query of rows as the assignments leave them.
func (l *life) after(rows string, writes []assignment) string {
	parts := make([]string, len(l.cols))
	for i, c := range l.cols {
		parts[i] = c.sql()
		for _, w := range writes {
			if w.to.name == c.name {
				parts[i] = l.d.cast(w.expr, c) + " as " + quote(c.name)
			}
		}
	}
	return "select " + strings.Join(parts, ", ") + " from (" + rows + ") t"
}

// Defaults of columns that can be told without running anything.
var constant = regexp.MustCompile(`(?i)^(-?\d+(\.\d+)?|true|false|null|now\(\)|current_timestamp|'[^']*')(::[\w ."]+)?$`)

// inserted is a row of defaults and nulls, if there can be one.
func (l *life) inserted() (string, bool) {
	parts := make([]string, len(l.cols))
	for i, c := range l.cols {
		def := l.d.theirs(c.def)
		switch {
		case c.def == "" && c.null:
			def = "null"
		case !constant.MatchString(c.def):
			return "", false
		}
		parts[i] = l.d.cast(def, c) + " as " + quote(c.name)
	}
	return strings.Join(parts, ", "), true
}

// judge evaluates all stages at once, and tells how many rows there were.
func (l *life) judge(ctx context.Context, db *sql.DB, rows string) (seen int64, err error) {
	stages := l.stages("select " + l.columns("b.") + " from dibs_base b")
	ask := func(some []stage) ([]string, error) {
		counts := []string{"(select count(*) from dibs_base)"}
		for _, s := range some {
			counts = append(counts, "(select count(*) from ("+s.rows+") t where "+s.bad+")")
		}
		st := numbered(l.d, "with dibs_base as materialized ("+rows+") select "+strings.Join(counts, ", "))
		var found [][]string
		err := l.d.peek(ctx, db, lifeTime, func(q querier) error {
			var err error
			found, err = queryAll(ctx, q, st.text, st.args(map[string]any{
				"token": strings.Repeat("0", 32), "worker": "dibs", "lease": l.Lease.Seconds(),
			})...)
			return err
		})
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}
	counts, err := ask(stages)
	if err != nil {
		return 0, l.unjudged(err, stages, ask)
	}
	seen = atoi(counts[0])
	for i, s := range stages {
		if n := atoi(counts[i+1]); n > 0 && (!s.unless || n == seen) {
			return seen, invalid(s.field, "%s (%d of %d rows that were looked at)", s.why, n, seen)
		}
	}
	return seen, nil
}

// unjudged tells what an error of judge means: a value that its column does not
// take is the mapping's; that it takes too long, or that a condition is about more
// than the columns of a row, says nothing.
func (l *life) unjudged(err error, stages []stage, ask func([]stage) ([]string, error)) error {
	var pg sqlState
	switch {
	case errors.As(err, &pg) && strings.HasPrefix(pg.SQLState(), "22"):
		if _, err := ask(nil); err != nil {
			return invalid("unfinished", "or another condition fails on a row of the table: %v", err)
		}
		for _, s := range stages {
			if _, err := ask([]stage{s}); err != nil {
				return invalid(s.field, "what it or a claim writes does not fit: %v", err)
			}
		}
	case !tooLong(err) && passes(err):
		return err
	}
	return nil
}
