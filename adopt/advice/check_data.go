package advice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// order tells how many rows share their place in the order, so that ids decide.
func (c *checker) order(ctx context.Context) error {
	p := c.p
	if len(p.Mapping.Order) == 0 {
		c.add(SeverityNote, "order", "name columns to claim by, such as a priority or the time of creation", "is not given: rows are claimed in the order of their ids")
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
	by := strings.Join(exprs, ", ")
	rows, ok, err := c.ask(ctx, "order", fmt.Sprintf(
		"select count(*), coalesce(sum(n), 0) from (select count(*) as n from (select %s from %s t where %s limit %d) t group by %s having count(*) > 1) x",
		by, p.Table, p.Open, checkRows, by))
	if err != nil || !ok || adopted.Atoi(rows[0][0]) == 0 {
		return err
	}
	c.add(SeverityNote, "order", "", "%s of the unfinished rows that were looked at share their place in the order with others; among these, ids decide", rows[0][1])
	return nil
}

// values compares the values that the mapping names with those that are there.
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
				c.add(SeverityWarning, v.field, "", "compares %s with %q, which no row has, and nothing sets; rows have %s", name, v.text, list(have))
			}
		}
		for _, v := range written[name] {
			if !slices.Contains(have, v.text) && !slices.ContainsFunc(compared[name], func(w value) bool { return w.text == v.text }) {
				c.add(SeverityNote, v.field, "see that it is spelt as the programs that read it want it",
					"sets %s to %q, which no row has so far; rows have %s", name, v.text, list(have))
			}
		}
	}
	return nil
}

// value is a value of a column that a field of the mapping names.
type value struct{ field, text string }

// comparedValues are the texts and numbers that conditions compare columns with.
func (c *checker) comparedValues() map[string][]value {
	all := map[string][]value{}
	for _, d := range c.p.Conds {
		for _, x := range c.p.Comparisons(d) {
			for _, v := range x.Values {
				if x.Kind != adopted.Boolean { // booleans are written in several ways
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

// mostValues is how many different values a column may have that is a status.
const mostValues = 50

// distinct are the values of a column in some rows; ok is false if there are too many.
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

// fitting is the SQL of the first format of times that a column's value has; empty: none.
func (p *subject) fitting(c adopted.Column) string {
	col := c.SQL()
	cases := ""
	for _, f := range adopted.AllTimes {
		if _, err := p.Dialect.Clock(c, f); err == nil {
			if odd := p.of.odd(c, f, col); odd != "" {
				cases += " when not " + odd + " then '" + string(f) + "'"
			}
		}
	}
	if cases == "" {
		return "''"
	}
	return "case" + cases + " else '' end"
}

// times looks for times that are not in the mapping's format, or have not come yet
// where they must have.
func (c *checker) times(ctx context.Context) error {
	p := c.p
	for _, t := range c.timed() {
		col := t.Column.SQL()
		if odd := p.of.odd(t.Column, p.TimesOf(t.Column), col); odd != "" {
			rows, ok, err := c.ask(ctx, t.field, "select "+p.Dialect.AsText(col)+", "+p.fitting(t.Column)+" from "+p.Table+" t where "+col+" is not null and "+odd+" limit 1")
			if err != nil {
				return err
			}
			if ok && len(rows) > 0 {
				advice := "say in the mapping times: " + rows[0][1] + "; times are compared as they stand"
				if rows[0][1] == "" {
					advice = "no format of times fits it, so that it cannot be compared with the time now: leave the column out of the mapping"
				}
				c.add(SeverityError, t.field, advice,
					"%s holds %.60q, which is not of the format in which dibs writes and compares times there", t.Name, rows[0][0])
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
			c.add(SeverityWarning, t.field, "see which time zone the programs write, and say it in \"times\"",
				"of %s unfinished rows %s is more than five minutes in the future: another time zone, or a clock that is wrong", atMost(n), t.Name)
		}
	}
	return nil
}
