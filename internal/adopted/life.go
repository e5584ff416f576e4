package adopted

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
)

// This file checks that the conditions fit what claims and outcomes write: a claimed row must
// no longer be available, and a completed row must not be unfinished. The check writes nothing.
// It evaluates the conditions over queries that return available rows as a claim or an outcome
// would change them. If no row is available it takes one with the columns' defaults.

const (
	lifeRows = 100                    // most rows over which conditions are evaluated
	lifeTime = 500 * time.Millisecond // longest time that an evaluation may take
)

// stage describes rows after a claim or an outcome, and a condition that must not be true of them.
type stage struct {
	field   string // field of the mapping, for the error
	rows    string // query that returns the changed rows
	bad     string // condition that must not be true
	allRows bool   // the error is reported only if the condition is true of every row: the attempts of some may be used up
	why     string // text of the error
}

func (p *Plan) checkLife(ctx context.Context, db *sql.DB) error {
	if err := p.checkNamed(); err != nil {
		return err
	}
	l, ok := newLife(p)
	if !ok {
		return nil
	}
	real := "select " + l.columns("t.") + " from " + p.Table + " t where " + p.Waiting() + fmt.Sprintf(" limit %d", lifeRows)
	seen, err := l.judge(ctx, db, real)
	if err != nil || seen > 0 {
		return err
	}
	if row, ok := l.inserted(); ok {
		_, err = l.judge(ctx, db, "select "+l.columns("t.")+" from (select "+row+") t where "+p.Waiting())
	}
	return err
}

// checkNamed needs no rows: it refuses a claim that writes none of the columns that
// "available" names.
func (p *Plan) checkNamed() error {
	i := slices.IndexFunc(p.Conds, func(c *Condition) bool { return c.Field == "available" })
	if i < 0 || p.SideTable || p.LockOnly() {
		return nil
	}
	looks, claims := p.Conds[i].MayDependOn, p.Claims()
	if slices.ContainsFunc(p.On.Columns, func(c Column) bool { return c.Generated && looks(c) }) ||
		slices.ContainsFunc(claims, func(a Assignment) bool { return looks(a.To) }) {
		return nil
	}
	names := Joined(claims, ", ", func(_ int, a Assignment) string { return a.To.Name })
	return Invalid("claim", "writes %s, and \"available\" looks at none of these: a row would be claimed for ever; write in claim.set a column that \"available\" looks at",
		names)
}

// Waiting is a condition for unfinished rows that no worker has claimed, even if they may start only later.
func (p *Plan) Waiting() string {
	if p.Available == "" {
		return p.Open
	}
	return p.Open + " and (" + p.Available + ")"
}

// life holds the columns of a row that are needed to check the conditions, and the stages to check.
type life struct {
	*Plan
	cols   []Column
	stages func(rows string) []stage
}

// newLife returns false if the conditions cannot be evaluated over rows that are not in the table.
func newLife(p *Plan) (*life, bool) {
	l := &life{Plan: p}
	ends := Values{Err: "'an error'", Result: "null", Delay: "null"}
	writes := slices.Concat(p.Claims(), p.Backs(ends, ""), p.Assign(p.Completed.Set, ends))
	for _, c := range []*mapping.Change{p.Dead, p.Cancelled} {
		if c != nil {
			writes = append(writes, p.Assign(c.Set, ends)...)
		}
	}
	for _, c := range p.On.Columns {
		named := slices.ContainsFunc(p.Conds, func(d *Condition) bool { return d.Names(c) })
		if named && c.computed {
			return nil, false // a query cannot recompute the column
		}
		written := slices.ContainsFunc(writes, func(a Assignment) bool { return a.To.Name == c.Name })
		if named || written || c.Name == p.Claim.Attempts || c.Name == p.NotBefore {
			l.cols = append(l.cols, c)
		}
	}
	if len(l.cols) == 0 {
		return nil, false
	}
	l.stages = func(rows string) []stage {
		claimed := l.after(rows, p.Claims())
		all := []stage{}
		if !p.SideTable && !p.LockOnly() {
			all = append(all, stage{
				"claim", claimed, p.Waiting(), false,
				"leaves rows available: they would be claimed for ever; write in claim.set a column that \"available\" looks at",
			})
		}
		if p.Marked() {
			all = append(all,
				stage{
					"unfinished", claimed, "(" + p.Open + ") is not true", false,
					"is not true of a claimed row, so every outcome would be refused; a claim must not end rows",
				},
				stage{
					"running", claimed, "(" + p.AtWork + ") is not true", false,
					"is not true of a claimed row, so every outcome would be refused; it must be true of what claim writes",
				},
				stage{
					"put_back", l.after(claimed, p.Backs(ends, "")), "(" + p.Waiting() + ") is not true", true,
					"does not make a claimed row available again; set the columns that \"available\" looks at",
				})
		}
		for _, e := range []struct {
			field string
			c     *mapping.Change
		}{{"completed", &p.Completed}, {"dead", p.Dead}, {"cancelled", p.Cancelled}} {
			if e.c != nil && !e.c.Delete {
				all = append(all, stage{
					e.field, l.after(claimed, p.Assign(e.c.Set, ends)), p.Open, false,
					"leaves the row unfinished: it would be done again; set a column that \"unfinished\" looks at",
				})
			}
		}
		return all
	}
	return l, true
}

// columns lists the needed columns, each after a prefix such as "t.".
func (l *life) columns(prefix string) string {
	return Joined(l.cols, ", ", func(_ int, c Column) string { return prefix + Quote(c.Name) })
}

// after is a query that returns rows as the assignments change them.
func (l *life) after(rows string, writes []Assignment) string {
	parts := make([]string, len(l.cols))
	for i, c := range l.cols {
		parts[i] = c.SQL()
		for _, w := range writes {
			if w.To.Name == c.Name {
				parts[i] = l.Dialect.cast(w.expr, c) + " as " + Quote(c.Name)
			}
		}
	}
	return "select " + strings.Join(parts, ", ") + " from (" + rows + ") t"
}

// Constant matches defaults that can be evaluated without calling a function of the user's.
var Constant = regexp.MustCompile(`(?i)^(-?\d+(\.\d+)?|true|false|null|now\(\)|current_timestamp|'[^']*')(::[\w ."]+)?$`)

// inserted is a row of defaults and nulls; false: a column has no default that can be evaluated.
func (l *life) inserted() (string, bool) {
	parts := make([]string, len(l.cols))
	for i, c := range l.cols {
		def := l.Dialect.theirs(c.Def)
		switch {
		case c.Def == "" && c.Null:
			def = "null"
		case !Constant.MatchString(c.Def):
			return "", false
		}
		parts[i] = l.Dialect.cast(def, c) + " as " + Quote(c.Name)
	}
	return strings.Join(parts, ", "), true
}

// OneClaim returns the parameters of a claim of one row.
func (p *Plan) OneClaim() map[string]any {
	return map[string]any{
		"token": strings.Repeat("0", 32), "worker": "dibs", "lease": p.Lease.Seconds(), "micros": p.Lease.Microseconds(),
		"n": 1, "look": 4, "turns": 1, "kinds": nil, "has": nil, "missed": nil, "passed": nil,
	}
}

// judge evaluates all stages in one query, and returns the number of rows.
func (l *life) judge(ctx context.Context, db *sql.DB, rows string) (seen int64, err error) {
	stages := l.stages("select " + l.columns("b.") + " from dibs_base b")
	ask := func(some []stage) ([]string, error) {
		counts := []string{"(select count(*) from dibs_base)"}
		for _, s := range some {
			counts = append(counts, "(select count(*) from ("+s.rows+") t where "+s.bad+")")
		}
		found, err := l.Dialect.Look(ctx, db, lifeTime, "with dibs_base "+l.Dialect.common+" ("+rows+") select "+strings.Join(counts, ", "), l.OneClaim())
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}
	counts, err := ask(stages)
	if err != nil {
		return 0, l.unjudged(err, stages, ask)
	}
	seen = Atoi(counts[0])
	for i, s := range stages {
		if n := Atoi(counts[i+1]); n > 0 && (!s.allRows || n == seen) {
			return seen, Invalid(s.field, "%s (%d of %d rows that were checked)", s.why, n, seen)
		}
	}
	return seen, nil
}

// unjudged turns an error of judge's query into the error to report. A value that its column
// does not accept is an error of the mapping. A timeout is none, nor is a condition that needs
// more than the columns of a row.
func (l *life) unjudged(err error, stages []stage, ask func([]stage) ([]string, error)) error {
	var pg sqlState
	switch {
	case errors.As(err, &pg) && strings.HasPrefix(pg.SQLState(), "22"), mariaError(err) != nil && Refused(err):
		if _, err := ask(nil); err != nil {
			return Invalid("unfinished", "or another condition fails on a row of the table: %v", err)
		}
		for _, s := range stages {
			if _, err := ask([]stage{s}); err != nil {
				return Invalid(s.field, "a value that it or a claim writes does not fit its column: %v", err)
			}
		}
	case !TooLong(err) && Passes(err):
		return err
	}
	return nil
}
