package advice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// order reports how many rows have the same place in the order as others: their ids decide.
func (c *checker) order(ctx context.Context) {
	p := c.p
	var names, exprs []string
	for _, o := range p.Ordering[:min(len(p.Mapping.Order), len(p.Ordering))] {
		names, exprs = append(names, o.Name), append(exprs, o.Column.SQL())
	}
	if len(names) == 0 || p.On.Keyed(names) {
		return
	}
	columns := strings.Join(exprs, ", ")
	for _, alike := range c.ask(ctx, "order", fmt.Sprintf(
		"select sum(n) from (select count(*) as n from (select %s from %s t where %s limit %d) t group by %s having count(*) > 1) x having count(*) > 0",
		columns, p.Table, p.Open, checkRows, columns)) {
		c.report(SeverityNote, "order", alike[0]+" of the unfinished rows that were read share their place in the order with others; the smaller id is claimed first", "")
	}
}

// values compares the values that the mapping names with those in the table.
func (c *checker) values(ctx context.Context) {
	compared, written := c.p.comparedValues(), c.p.writtenValues()
	for _, name := range slices.Sorted(maps.Keys(compared)) {
		col, _ := c.p.On.Column(name)
		have := c.distinct(ctx, col)
		if len(have) == 0 {
			continue
		}
		unknown := func(v value, others []value) bool {
			return !slices.Contains(have, v.text) && !slices.ContainsFunc(others, func(o value) bool { return o.text == v.text })
		}
		for _, v := range compared[name] {
			if unknown(v, written[name]) {
				c.report(SeverityWarning, v.field, fmt.Sprintf("compares %s with %q, which no row has and nothing sets; rows have %s", name, v.text, list(have)), "")
			}
		}
		for _, v := range written[name] {
			if unknown(v, compared[name]) {
				c.report(SeverityNote, v.field, fmt.Sprintf("sets %s to %q, which no row has so far; rows have %s", name, v.text, list(have)),
					"make sure that it is spelt as other programs expect it")
			}
		}
	}
}

// value is a column's value, as text, that a field of the mapping names.
type value struct{ field, text string }

// comparedValues maps each column to the texts and numbers that conditions compare it with.
func (p *subject) comparedValues() map[string][]value {
	all := map[string][]value{}
	for _, d := range p.Conds {
		for _, x := range p.Comparisons(d) {
			for _, v := range x.Values {
				if x.Kind != adopted.Boolean { // there are several ways to write a boolean
					all[x.Name] = append(all[x.Name], value{d.Field, v})
				}
			}
		}
	}
	return all
}

// writtenValues maps each column to the constants that claims and outcomes set it to.
func (p *subject) writtenValues() map[string][]value {
	all := map[string][]value{}
	for _, ch := range p.Changes() {
		for _, name := range slices.Sorted(maps.Keys(ch.Set)) {
			v := ch.Set[name]
			if s, isText := v.(string); v != nil && (!isText || !strings.HasPrefix(s, "$")) {
				all[name] = append(all[name], value{ch.Field, fmt.Sprint(v)})
			}
		}
	}
	return all
}

// distinct returns the different values of a column in the first rows; none if there are too many.
func (c *checker) distinct(ctx context.Context, col adopted.Column) (values []string) {
	for _, t := range c.tallies(ctx, col, "1 = 1", checkRows*5) {
		if !t.null {
			values = append(values, t.value)
		}
	}
	slices.Sort(values)
	return values
}

// list quotes up to ten values.
func list(values []string) string {
	more := ""
	if len(values) > 10 {
		values, more = values[:10], " and others"
	}
	return adopted.Joined(values, ", ", func(_ int, v string) string { return fmt.Sprintf("%.40q", v) }) + more
}

// fitting is SQL for the name of the first time format that a column's value has. It
// evaluates to an empty string if there is none.
func (p *subject) fitting(c adopted.Column) string {
	col := c.SQL()
	cases := ""
	for _, f := range adopted.AllTimes {
		if _, err := p.Dialect.Clock(c, f); err == nil {
			if odd := p.database.odd(c, f, col); odd != "" {
				cases += " when not " + odd + " then '" + string(f) + "'"
			}
		}
	}
	if cases == "" {
		return "''"
	}
	return "case" + cases + " else '' end"
}

// times looks for times that are not in the mapping's format, and for claims that were
// made in the future.
func (c *checker) times(ctx context.Context) {
	p := c.p
	for _, t := range p.timed() {
		col := t.Column.SQL()
		if odd := p.database.odd(t.Column, p.TimesOf(t.Column), col); odd != "" {
			rows := c.ask(ctx, t.field, "select "+p.Dialect.AsText(col)+", "+p.fitting(t.Column)+" from "+p.Table+" t where "+col+" is not null and "+odd+" limit 1")
			if len(rows) > 0 {
				advice := "write in the mapping times: " + rows[0][1] + "; times are compared as they stand"
				if rows[0][1] == "" {
					advice = "no time format fits it, so it cannot be compared with the time now: leave the column out of the mapping"
				}
				c.report(SeverityError, t.field, fmt.Sprintf("%s holds %.60q, which is not of the format in which dibs writes and compares its times", t.Name, rows[0][0]), advice)
				continue
			}
		}
		c.apply(ctx, []rule{{
			holds: t.field == "claim.started_at", severity: SeverityWarning, field: t.field, rows: p.Open + " and " + col + " > " + t.After("300"),
			text:   "in {n} unfinished rows " + t.Name + " is more than five minutes in the future: another time zone, or a wrong clock",
			advice: "find out which time zone other programs write, and name it in \"times\"",
		}})
	}
}
