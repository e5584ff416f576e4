package advice

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// This file compares the rows that claim, completed and put_back would leave with rows that
// other programs have left running, ended or waiting. It looks at the columns that show a
// row's state: statuses, flags, and times that may be null. Each value of such a column is
// reduced to a look: a boolean, a status or a small number is its own look; of a time, the
// look says only whether it is null.

// The mapping's conditions put each row into one of these classes.
const (
	classWaiting = "waiting"
	classRunning = "running"
	classEnded   = "ended"
)

// contrast says that the mapping leaves a column with a look that no row of the class has.
type contrast struct {
	adopted.Column
	field  string   // field of the mapping: claim, put_back or completed
	class  string   // class of the rows that the changed row should look like
	leaves string   // look that the mapping leaves
	have   []string // looks of the rows of the class, the most frequent first
	rows   int64    // number of rows of the class
	value  any      // value that the mapping should set
}

func (c contrast) String() string {
	return fmt.Sprintf("leaves %s %s, but all %d %s rows that were read have %s", c.Name, c.leaves, c.rows, c.class, strings.Join(c.have, " or "))
}

const null, set = "null", "not null"

// lookSQL is SQL for the look of a column; empty: the column shows no state.
func (p *subject) lookSQL(c adopted.Column) string {
	col := c.SQL()
	switch {
	case c.Generated || slices.Contains(p.ID, c.Name) || c.Name == p.Claim.Attempts || c.Name == p.NotBefore:
	case c.Kind == adopted.Boolean:
		return "case when " + col + " then 'true' when " + col + " is null then '" + null + "' else 'false' end"
	case c.Kind == adopted.Integer, isStatus(c) && (c.Kind == adopted.Text || c.Kind == adopted.Other):
		return "coalesce(" + p.Dialect.AsText(col) + ", '" + null + "')"
	case c.Null && (c.Kind == adopted.Instant || c.Kind == adopted.Stamp || c.Kind == adopted.Date):
		return "case when " + col + " is null then '" + null + "' else '" + set + "' end"
	}
	return ""
}

// looks counts the looks of a column, by class or outcome.
type looks map[string]map[string]int64

// contrasts finds the columns that the mapping leaves with another look than the data has.
func (p *subject) contrasts(ctx context.Context, db *sql.DB) (all []contrast, err error) {
	var cols []adopted.Column
	for _, c := range p.On.Columns {
		if p.lookSQL(c) != "" {
			cols = append(cols, c)
		}
	}
	after, err := p.looksAfter(ctx, db, cols)
	if err != nil || len(after) == 0 {
		return nil, err
	}
	for _, c := range cols {
		data, err := p.looksBefore(ctx, db, c)
		if err != nil {
			return nil, err
		}
		for _, f := range []struct{ field, class string }{
			{"claim", classRunning}, {"put_back", classWaiting}, {"completed", classEnded},
		} {
			if found, ok := compare(c, data, f.class, after[c.Name][f.field], after[c.Name][classWaiting]); ok {
				found.field = f.field
				all = append(all, found)
			}
		}
	}
	return all, nil
}

// compare reports whether a look that the mapping leaves is one that no row of the class has,
// while the column tells the class from others.
func compare(c adopted.Column, data looks, class string, left, fresh map[string]int64) (contrast, bool) {
	have := data[class]
	found := contrast{Column: c, class: class}
	for look, n := range have {
		found.rows += n
		found.have = append(found.have, look)
	}
	slices.SortFunc(found.have, func(a, b string) int { return int(have[b] - have[a]) })
	if len(have) == 0 || len(have) > 5 || len(left) != 1 || found.rows < 2 {
		return found, false
	}
	for look := range left {
		if have[look] > 0 {
			return found, false
		}
		found.leaves = look
	}
	// Another class must have the look that is left, and share no look with this class.
	// A look that no row has is meant to be new, such as a status that only dibs sets.
	known := false
	for other, seen := range data {
		if other != class && seen[found.leaves] > 0 {
			if known = true; alike(seen, have) {
				return found, false
			}
		}
	}
	if class != classWaiting && fresh[found.leaves] > 0 {
		if known = true; alike(fresh, have) {
			return found, false
		}
	}
	found.value = found.valueOf(found.have[0])
	return found, known
}

// alike reports whether two classes have a look in common.
func alike(a, b map[string]int64) bool {
	for look := range a {
		if b[look] > 0 {
			return true
		}
	}
	return false
}

// valueOf is the value in a mapping that gives the column this look.
func (c contrast) valueOf(look string) any {
	switch {
	case look == null:
		return nil
	case look == set:
		return "$now"
	case c.Kind == adopted.Boolean:
		return adopted.Yes(look)
	case c.Kind == adopted.Integer:
		return int(adopted.Atoi(look))
	}
	if strings.HasPrefix(look, "$") {
		look = "$" + look
	}
	return look
}

// looksBefore counts the looks of a column in the table, by class.
func (p *subject) looksBefore(ctx context.Context, db *sql.DB, c adopted.Column) (looks, error) {
	class := "case when (" + p.Unfinished + ") is not true then '" + classEnded + "' when (" + p.Waiting() + ") is true then '" + classWaiting + "' else '" + classRunning + "' end"
	where := "1 = 1"
	if p.Where != "" {
		where = p.Where
	}
	rows, err := p.glance(ctx, db, fmt.Sprintf("select k, v, count(*) from (select %s as k, %s as v from %s t where %s limit %d) x group by k, v order by 3 desc limit %d",
		class, p.lookSQL(c), p.Table, where, checkRows, mostValues))
	all := looks{}
	for _, r := range rows {
		if all[r[0]] == nil {
			all[r[0]] = map[string]int64{}
		}
		all[r[0]][r[1]] += adopted.Atoi(r[2])
		if flag := []string{"0", "1", null}; c.Kind == adopted.Integer && !isStatus(c) && !slices.Contains(flag, r[1]) {
			return nil, nil // a number that shows no state
		}
	}
	return all, err
}

// looksAfter counts the looks of each column in rows that are available, and in the same rows
// once claimed, put back and completed. Without an available row it takes one with the
// columns' defaults.
func (p *subject) looksAfter(ctx context.Context, db *sql.DB, cols []adopted.Column) (map[string]looks, error) {
	l := &adopted.Life{Plan: p.Plan}
	for _, c := range p.On.Columns {
		if !c.Generated {
			l.Cols = append(l.Cols, c)
		}
	}
	base := "select " + l.Columns("t.") + " from " + p.Table + " t where " + p.Waiting() + fmt.Sprintf(" limit %d", adopted.LifeRows)
	all, err := p.looksOf(ctx, db, l, base, cols)
	if err != nil || len(all) > 0 {
		return all, err
	}
	l.Cols = slices.DeleteFunc(l.Cols, func(c adopted.Column) bool { return !c.Null && !adopted.Constant.MatchString(c.Def) })
	cols = slices.DeleteFunc(slices.Clone(cols), func(c adopted.Column) bool { return !slices.Contains(l.Cols, c) })
	row, ok := l.Inserted()
	if !ok || len(cols) == 0 {
		return nil, nil
	}
	return p.looksOf(ctx, db, l, "select "+row, cols)
}

func (p *subject) looksOf(ctx context.Context, db *sql.DB, l *adopted.Life, base string, cols []adopted.Column) (map[string]looks, error) {
	ends := adopted.Values{Err: "'an error'", Result: "null", Delay: "null"}
	fresh := "select " + l.Columns("b.") + " from dibs_base b"
	claimed := l.After(fresh, p.Claims())
	stages := map[string]string{classWaiting: fresh, "claim": claimed, "put_back": l.After(claimed, p.Backs(ends, ""))}
	if !p.Completed.Delete {
		stages["completed"] = l.After(claimed, p.Assign(p.Completed.Set, ends))
	}
	var parts []string
	for stage, rows := range stages {
		for _, c := range cols {
			name, _ := p.Dialect.Literal(c.Name) // no error: every string has a literal
			parts = append(parts, "select '"+stage+"' as stage, "+name+" as name, v, count(*) as n from (select "+p.lookSQL(c)+" as v from ("+rows+") t) x group by v")
		}
	}
	all := map[string]looks{}
	for len(parts) > 0 { // SQLite allows 500 parts in one query
		some := parts[:min(len(parts), 100)]
		parts = parts[len(some):]
		rows, err := p.glance(ctx, db, "with dibs_base as materialized ("+base+") "+strings.Join(some, " union all "))
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if all[r[1]] == nil {
				all[r[1]] = looks{}
			}
			if all[r[1]][r[0]] == nil {
				all[r[1]][r[0]] = map[string]int64{}
			}
			all[r[1]][r[0]][r[2]] += adopted.Atoi(r[3])
		}
	}
	return all, nil
}

// glance evaluates a query. It returns no rows if that takes too long, or if an expression
// cannot be evaluated over rows that are not in the table.
func (p *subject) glance(ctx context.Context, db *sql.DB, query string) ([][]string, error) {
	rows, err := p.Evaluate(ctx, db, query)
	if err != nil && !adopted.Passes(err) || adopted.TooLong(err) {
		return nil, nil
	}
	return rows, err
}

// contrasts warns of columns that claims and outcomes leave otherwise than other programs do.
func (c *checker) contrasts(ctx context.Context) error {
	all, err := c.p.contrasts(ctx, c.db)
	for _, f := range all {
		c.add(SeverityWarning, f.field, fmt.Sprintf("if other programs look at %s, let %s set it: %[1]s: %[3]v", f.Name, f.field, f.value), "%s", f)
	}
	return err
}

// followData makes the proposal leave rows as other programs leave them. Its second round undoes what the first has made
// a claim set.
func (p *proposer) followData(ctx context.Context, db *sql.DB) error {
	told := map[string]bool{}
	for range 2 {
		if err := p.followOnce(ctx, db, told); err != nil {
			return err
		}
	}
	return nil
}

// followOnce follows the contrasts that there are now, except those that were told before.
func (p *proposer) followOnce(ctx context.Context, db *sql.DB, told map[string]bool) error {
	on, err := adopted.Prepare(ctx, db, p.m)
	if err != nil {
		return nil //nolint:nilerr // the caller reports a mapping that does not fit
	}
	all, err := subjectOf(on).contrasts(ctx, db)
	if err != nil {
		return err
	}
	for _, f := range all {
		if told[f.String()] {
			continue
		}
		told[f.String()] = true
		to := map[string]*mapping.Set{"claim": &p.m.Claim.Set, "put_back": &p.m.PutBack.Set, "completed": &p.m.Completed.Set}[f.field]
		was := *to
		*to = mapping.Set{f.Name: f.value}
		for name, v := range was {
			if name != f.Name {
				(*to)[name] = v
			}
		}
		if _, err := adopted.Prepare(ctx, db, p.m); err != nil {
			*to = was
			p.unsure(f.field, "%s", f)
			continue
		}
		value := f.value
		if value == nil {
			value = "null"
		}
		text := "%s is set to %v, since all %d %s rows that were read have %s"
		if len(f.have) > 1 {
			p.unsure(f.field, text, f.Name, value, f.rows, f.class, strings.Join(f.have, " or "))
		} else {
			p.why(f.field, text, f.Name, value, f.rows, f.class, f.have[0])
		}
	}
	return nil
}
