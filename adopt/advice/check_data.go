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
func (c *checker) order(ctx context.Context) error {
	p := c.p
	if len(p.Mapping.Order) == 0 {
		c.add(SeverityNote, "order", "name the columns to claim by, such as a priority or the time of creation", "is not given: rows are claimed in the order of their ids")
		return nil
	}
	given := p.Ordering[:min(len(p.Mapping.Order), len(p.Ordering))]
	var names, exprs []string
	for _, o := range given {
		names, exprs = append(names, o.Name), append(exprs, o.Column.SQL())
	}
	if p.On.Keyed(names) {
		return nil
	}
	columns := strings.Join(exprs, ", ")
	rows, ok, err := c.ask(ctx, "order", fmt.Sprintf(
		"select count(*), coalesce(sum(n), 0) from (select count(*) as n from (select %s from %s t where %s limit %d) t group by %s having count(*) > 1) x",
		columns, p.Table, p.Open, checkRows, columns))
	if err != nil || !ok || adopted.Atoi(rows[0][0]) == 0 {
		return err
	}
	c.add(SeverityNote, "order", "", "%s of the unfinished rows that were read share their place in the order with others; the smaller id is claimed first", rows[0][1])
	return nil
}

// values compares the values that the mapping names with those in the table.
func (c *checker) values(ctx context.Context) error {
	compared, written := c.comparedValues(), c.writtenValues()
	for _, name := range slices.Sorted(maps.Keys(compared)) {
		col, _ := c.p.On.Column(name)
		have, ok, err := c.distinct(ctx, col)
		if err != nil {
			return err
		}
		if !ok || len(have) == 0 {
			continue
		}
		for _, v := range compared[name] {
			if !slices.Contains(have, v.text) && !slices.ContainsFunc(written[name], func(w value) bool { return w.text == v.text }) {
				c.add(SeverityWarning, v.field, "", "compares %s with %q, which no row has and nothing sets; rows have %s", name, v.text, list(have))
			}
		}
		for _, v := range written[name] {
			if !slices.Contains(have, v.text) && !slices.ContainsFunc(compared[name], func(w value) bool { return w.text == v.text }) {
				c.add(SeverityNote, v.field, "make sure that it is spelt as other programs expect it",
					"sets %s to %q, which no row has so far; rows have %s", name, v.text, list(have))
			}
		}
	}
	return nil
}

// value is a column's value, as text, that a field of the mapping names.
type value struct{ field, text string }

// comparedValues maps each column to the texts and numbers that conditions compare it with.
func (c *checker) comparedValues() map[string][]value {
	all := map[string][]value{}
	for _, d := range c.p.Conds {
		for _, x := range c.p.Comparisons(d) {
			for _, v := range x.Values {
				if x.Kind != adopted.Boolean { // there are several ways to write a boolean
					all[x.Name] = append(all[x.Name], value{d.Field, v})
				}
			}
		}
	}
	return all
}

func (c *checker) writtenValues() map[string][]value {
	all := map[string][]value{}
	for _, ch := range c.p.Changes() {
		for _, name := range slices.Sorted(maps.Keys(ch.Set)) {
			v := ch.Set[name]
			if s, isText := v.(string); v != nil && (!isText || !strings.HasPrefix(s, "$")) {
				all[name] = append(all[name], value{ch.Field, fmt.Sprint(v)})
			}
		}
	}
	return all
}

// mostValues limits how many different values a status has: a column with more is no status.
const mostValues = 50

// distinct returns the different values of a column in the first rows; ok is false if there are too many.
func (c *checker) distinct(ctx context.Context, col adopted.Column) (values []string, ok bool, err error) {
	as := c.p.Dialect.AsText(col.SQL())
	rows, ok, err := c.ask(ctx, col.Name, fmt.Sprintf("select distinct v from (select %s as v from %s t limit %d) x where v is not null order by v limit %d",
		as, c.p.Table, checkRows*5, mostValues+1))
	if err != nil || !ok || len(rows) > mostValues {
		return nil, false, err
	}
	for _, r := range rows {
		values = append(values, r[0])
	}
	return values, true, nil
}

func list(values []string) string {
	more := ""
	if len(values) > 10 {
		values, more = values[:10], " and others"
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = fmt.Sprintf("%.40q", v)
	}
	return strings.Join(quoted, ", ") + more
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
func (c *checker) times(ctx context.Context) error {
	p := c.p
	for _, t := range c.timed() {
		col := t.Column.SQL()
		if odd := p.database.odd(t.Column, p.TimesOf(t.Column), col); odd != "" {
			rows, ok, err := c.ask(ctx, t.field, "select "+p.Dialect.AsText(col)+", "+p.fitting(t.Column)+" from "+p.Table+" t where "+col+" is not null and "+odd+" limit 1")
			if err != nil {
				return err
			}
			if ok && len(rows) > 0 {
				advice := "write in the mapping times: " + rows[0][1] + "; times are compared as they stand"
				if rows[0][1] == "" {
					advice = "no time format fits it, so it cannot be compared with the time now: leave the column out of the mapping"
				}
				c.add(SeverityError, t.field, advice,
					"%s holds %.60q, which is not of the format in which dibs writes and compares its times", t.Name, rows[0][0])
				continue
			}
		}
		if t.field != "claim.started_at" {
			continue
		}
		n, ok, err := c.count(ctx, t.field, "select 1 from "+p.Table+" t where "+p.Open+" and "+col+" > "+t.After("300"))
		if err != nil {
			return err
		}
		if ok && n > 0 {
			c.add(SeverityWarning, t.field, "find out which time zone other programs write, and name it in \"times\"",
				"in %s unfinished rows %s is more than five minutes in the future: another time zone, or a wrong clock", atMost(n), t.Name)
		}
	}
	return nil
}
