package advice

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// This file compares what claim, completed and put_back would leave in a row with rows that
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

// looks counts rows by the looks of a column.
type looks map[string]int64

// contrasts finds the columns that the mapping leaves with another look than the data has.
func (p *subject) contrasts(ctx context.Context, db *sql.DB) (all []contrast, err error) {
	for _, c := range p.On.Columns {
		if p.lookSQL(c) == "" {
			continue
		}
		have, err := p.looksByClass(ctx, db, c, cmp.Or(p.Where, "1 = 1"))
		if err != nil {
			return nil, err
		}
		if have == nil {
			continue
		}
		if len(have[classWaiting]) == 0 { // the first rows may all have ended
			waiting, err := p.looksByClass(ctx, db, c, p.Waiting())
			if err != nil {
				return nil, err
			}
			maps.Copy(have, waiting)
		}
		if len(have[classWaiting]) == 0 {
			have[classWaiting] = defaultLook(c)
		}
		left := p.looksLeft(c, have[classWaiting])
		for _, f := range []struct{ field, class string }{
			{"claim", classRunning}, {"put_back", classWaiting}, {"completed", classEnded},
		} {
			if found, ok := compare(c, have, f.class, left[f.field]); ok {
				found.field = f.field
				all = append(all, found)
			}
		}
	}
	return all, nil
}

// compare reports whether a look that the mapping leaves is one that no row of the class has,
// while the column tells the class from others.
func compare(c adopted.Column, data map[string]looks, class string, left looks) (contrast, bool) {
	have := data[class]
	found := contrast{Column: c, class: class}
	for look, n := range have {
		found.rows += n
		found.have = append(found.have, look)
	}
	slices.SortFunc(found.have, func(a, b string) int { return cmp.Or(cmp.Compare(have[b], have[a]), cmp.Compare(a, b)) })
	if len(have) == 0 || len(have) > 5 || len(left) != 1 || found.rows < 2 {
		return found, false
	}
	for look := range left {
		found.leaves = look
	}
	found.value = found.valueOf(found.have[0])
	// Another class must have the look that is left, and share no look with this class.
	// A look that no row has is meant to be new, such as a status that only dibs sets.
	known := false
	for _, seen := range data {
		if seen[found.leaves] > 0 {
			if known = true; slices.ContainsFunc(found.have, func(look string) bool { return seen[look] > 0 }) {
				return found, false
			}
		}
	}
	return found, known
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

// lookOf is the look of a column that the mapping sets to a value; false: the value depends on the attempt.
func lookOf(c adopted.Column, value any) (look string, ok bool) {
	text, isText := value.(string)
	switch {
	case value == nil:
		return null, true
	case c.Kind == adopted.Instant || c.Kind == adopted.Stamp || c.Kind == adopted.Date:
		return set, true
	case isText && strings.HasPrefix(text, "$"):
		return text[1:], strings.HasPrefix(text, "$$")
	case c.Kind == adopted.Boolean:
		return fmt.Sprint(adopted.Yes(fmt.Sprint(value))), true
	}
	return fmt.Sprint(value), true
}

// defaultLook is the look that a column has in a new row; none: it is not known.
func defaultLook(c adopted.Column) looks {
	var value any = unquoted(c.Def)
	switch {
	case c.Def == "" && c.Null, strings.EqualFold(c.Def, "null"):
		value = nil
	case !adopted.Constant.MatchString(c.Def), c.Def == "":
		return nil
	}
	look, _ := lookOf(c, value)
	return looks{look: 1}
}

// looksByClass counts by the looks of a column, for each class, the first rows that meet a condition; nil: the column
// shows no state, or the query takes too long.
func (p *subject) looksByClass(ctx context.Context, db *sql.DB, c adopted.Column, where string) (map[string]looks, error) {
	class := "case when (" + p.Unfinished + ") is not true then '" + classEnded + "' when (" + p.Waiting() + ") is true then '" + classWaiting + "' else '" + classRunning + "' end"
	rows, err := p.Dialect.Look(ctx, db, briefTime, fmt.Sprintf("select k, v, count(*) from (select %s as k, %s as v from %s t where %s limit %d) x group by k, v order by 3 desc limit %d",
		class, p.lookSQL(c), p.Table, where, checkRows, mostValues), nil)
	if err != nil && !adopted.Passes(err) || adopted.TooLong(err) {
		return nil, nil
	}
	all := map[string]looks{}
	for _, r := range rows {
		if all[r[0]] == nil {
			all[r[0]] = looks{}
		}
		all[r[0]][r[1]] += adopted.Atoi(r[2])
		if flag := []string{"0", "1", null}; c.Kind == adopted.Integer && !isStatus(c) && !slices.Contains(flag, r[1]) {
			return nil, nil // a number that shows no state
		}
	}
	return all, err
}

// looksLeft returns the looks of a column in rows that had the fresh looks and are claimed ("claim"), and then put back
// ("put_back") or completed ("completed").
func (p *subject) looksLeft(c adopted.Column, fresh looks) map[string]looks {
	claim, putBack := mapping.Set{}, mapping.Set{}
	for name, value := range map[string]any{p.Claim.Token: "$token", p.Claim.LockedBy: "$worker", p.Claim.StartedAt: "$now", p.Claim.Timeout: "$now"} {
		claim[name], putBack[name] = value, nil
	}
	maps.Copy(claim, p.Claim.Set)
	maps.Copy(putBack, p.PutBack.Set)
	after := func(before looks, set mapping.Set) looks {
		value, written := set[c.Name]
		if !written {
			return before
		}
		look, ok := lookOf(c, value)
		if !ok {
			return nil
		}
		return looks{look: 1}
	}
	claimed := after(fresh, claim)
	all := map[string]looks{"claim": claimed, "put_back": after(claimed, putBack)}
	if !p.Completed.Delete {
		all["completed"] = after(claimed, p.Completed.Set)
	}
	return all
}

// contrasts warns of columns that claims and outcomes leave otherwise than other programs do.
func (c *checker) contrasts(ctx context.Context) {
	all, err := c.p.contrasts(ctx, c.db)
	c.err = cmp.Or(c.err, err)
	for _, f := range all {
		c.report(SeverityWarning, f.field, f.String(), fmt.Sprintf("if other programs look at %s, let %s set it: %[1]s: %[3]v", f.Name, f.field, f.value))
	}
}

// followData makes the proposal leave rows as other programs leave them. The first round may let a claim set a column;
// the second lets put_back undo that.
func (p *proposer) followData(ctx context.Context) {
	done := map[string]bool{}
	for range 2 {
		on, err := adopted.Prepare(ctx, p.db, p.m)
		if err != nil || p.err != nil {
			return // p.fit reports a mapping that does not fit
		}
		var all []contrast
		all, p.err = subjectOf(on).contrasts(ctx, p.db)
		for _, f := range all {
			if !done[f.String()] {
				p.follow(ctx, f)
			}
			done[f.String()] = true
		}
	}
}

// follow lets the proposal set a column as the data has it, unless the mapping does not fit then.
func (p *proposer) follow(ctx context.Context, f contrast) {
	to := map[string]*mapping.Set{"claim": &p.m.Claim.Set, "put_back": &p.m.PutBack.Set, "completed": &p.m.Completed.Set}[f.field]
	was := *to
	*to = mapping.Set{}
	maps.Copy(*to, was)
	(*to)[f.Name] = f.value
	if _, err := adopted.Prepare(ctx, p.db, p.m); err != nil {
		*to = was
		p.unsure(f.field, "%s", f)
		return
	}
	report := p.why
	if len(f.have) > 1 {
		report = p.unsure
	}
	report(f.field, "%s is set to %v, since all %d %s rows that were read have %s", f.Name, cmp.Or(f.value, any(null)), f.rows, f.class, strings.Join(f.have, " or "))
}
