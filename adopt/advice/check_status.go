package advice

import (
	"context"
	"fmt"
	"slices"

	"github.com/dibs-queue/dibs/internal/adopted"
)

const statusNames = "status state stage phase"

// isStatus reports whether a column's name says that it holds a status.
func isStatus(c adopted.Column) bool { return isNamed(c, statusNames) }

// statuses checks the columns whose names say that they hold a status.
// It reports columns that no condition names, and values with which no row is ever claimed.
func (c *checker) statuses(ctx context.Context) error {
	for _, col := range c.p.On.Columns {
		if !isStatus(col) || col.Kind != adopted.Text && col.Kind != adopted.Integer && col.Kind != adopted.Other {
			continue
		}
		var err error
		switch {
		case !c.p.looksAt(col, ""):
			err = c.takenUnseen(ctx, col)
		case c.p.looksAt(col, "unfinished"):
			err = c.neverTaken(ctx, col)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// looksAt reports whether the condition of a field, or with an empty field any condition, may depend on a column.
func (p *subject) looksAt(col adopted.Column, field string) bool {
	return slices.ContainsFunc(p.Conds, func(d *adopted.Condition) bool {
		return (field == "" || d.Field == field) && d.MayDependOn(col)
	})
}

// takenUnseen warns of a status column that no condition names: rows are claimed whatever it holds.
func (c *checker) takenUnseen(ctx context.Context, col adopted.Column) error {
	have, ok, err := c.tallies(ctx, col, c.p.Waiting(), checkRows)
	if err != nil || !ok || len(have) < 2 {
		return err
	}
	c.report(SeverityWarning, "unfinished", fmt.Sprintf("no condition looks at %s, so rows with any value are claimed: %s", col.Name, withCounts(have, allRows)),
		"name in \"unfinished\" those that are to be done, such as: "+col.Name+" in (…)")
	return nil
}

// neverTaken reports the values of a status column that the mapping does not name: rows with
// them are never claimed.
func (c *checker) neverTaken(ctx context.Context, col adopted.Column) error {
	p := c.p
	where := p.Ended()
	if known := append(c.comparedValues()[col.Name], c.writtenValues()[col.Name]...); len(known) > 0 {
		all := adopted.Joined(known, ", ", func(_ int, v value) string {
			lit, _ := p.Dialect.Literal(v.text) // no error: every string has a literal
			return lit
		})
		where += " and (" + col.SQL() + " is null or not (" + p.Dialect.AsText(col.SQL()) + " in (" + all + ")))"
	}
	have, ok, err := c.tallies(ctx, col, where, checkRows)
	if err != nil || !ok || len(have) == 0 {
		return err
	}
	c.report(SeverityNote, "unfinished", fmt.Sprintf("the mapping does not name these values, and counts their rows as ended: no worker will ever take those with %s %s", col.Name, withCounts(have, allRows)),
		"if some of them are to be done, name them in \"unfinished\" and \"available\"")
	return nil
}

// tallies counts the rows for each value of a column, among the first rows that meet a condition.
// ok is false if there are too many values for a status.
func (c *checker) tallies(ctx context.Context, col adopted.Column, where string, rows int) (all []tally, ok bool, err error) {
	found, ok, err := c.ask(ctx, col.Name, tallySQL(c.p.Dialect.AsText(col.SQL()), "null", fmt.Sprintf("%s t where %s limit %d", c.p.Table, where, rows)))
	if err != nil || !ok {
		return nil, false, err
	}
	all, ok = talliesOf(found)
	return all, ok, nil
}

// journal warns if SQLite's journal mode makes readers and writers wait for each other.
func (c *checker) journal(ctx context.Context) error {
	if c.p.database.journalMode == "" {
		return nil
	}
	rows, ok, err := c.ask(ctx, "table", c.p.database.journalMode)
	if err != nil || !ok || len(rows) == 0 || rows[0][0] == "wal" || rows[0][0] == "memory" {
		return err
	}
	c.report(SeverityNote, "table", "the file has journal_mode "+rows[0][0]+": while dibs writes, other programs that read it fail with \"database is locked\"",
		"let every program wait (pragma busy_timeout = 10000), or let readers read on (pragma journal_mode = wal)")
	return nil
}
