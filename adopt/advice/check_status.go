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
// It reports columns that no condition names, so that rows are claimed whatever these hold, and values with which no row
// is ever claimed.
func (c *checker) statuses(ctx context.Context) {
	for _, col := range c.p.On.Columns {
		switch {
		case !isStatus(col) || col.Kind != adopted.Text && col.Kind != adopted.Integer && col.Kind != adopted.Other:
		case !c.p.looksAt(col, ""):
			if have := c.tallies(ctx, col, c.p.Waiting(), checkRows); len(have) > 1 {
				c.report(SeverityWarning, "unfinished", fmt.Sprintf("no condition looks at %s, so rows with any value are claimed: %s", col.Name, withCounts(have, allRows)),
					"name in \"unfinished\" those that are to be done, such as: "+col.Name+" in (…)")
			}
		case c.p.looksAt(col, "unfinished"):
			if have := c.tallies(ctx, col, c.p.endedUnknown(col), checkRows); len(have) > 0 {
				c.report(SeverityNote, "unfinished", fmt.Sprintf("the mapping does not name these values, and counts their rows as ended: no worker will ever take those with %s %s", col.Name, withCounts(have, allRows)),
					"if some of them are to be done, name them in \"unfinished\" and \"available\"")
			}
		}
	}
}

// looksAt reports whether the condition of a field of the mapping may depend on a column. With an empty field it asks
// about all conditions.
func (p *subject) looksAt(col adopted.Column, field string) bool {
	return slices.ContainsFunc(p.Conds, func(d *adopted.Condition) bool {
		return (field == "" || d.Field == field) && d.MayDependOn(col)
	})
}

// endedUnknown is a condition for rows that have ended, with a value of a column that the mapping does not name.
func (p *subject) endedUnknown(col adopted.Column) string {
	known := append(p.comparedValues()[col.Name], p.writtenValues()[col.Name]...)
	if len(known) == 0 {
		return p.Ended()
	}
	all := adopted.Joined(known, ", ", func(_ int, v value) string {
		lit, _ := p.Dialect.Literal(v.text) // no error: every string has a literal
		return lit
	})
	return p.Ended() + " and (" + col.SQL() + " is null or not (" + p.Dialect.AsText(col.SQL()) + " in (" + all + ")))"
}

// tallies counts the rows for each value of a column, among the first rows that meet a condition.
// It returns none if there are too many values for a status.
func (c *checker) tallies(ctx context.Context, col adopted.Column, where string, rows int) []tally {
	all, few := talliesOf(c.ask(ctx, col.Name, tallySQL(c.p.Dialect.AsText(col.SQL()), "null", fmt.Sprintf("%s t where %s limit %d", c.p.Table, where, rows))))
	if !few {
		return nil
	}
	return all
}

// journal reports a journal mode of SQLite in which readers and writers wait for each other.
func (c *checker) journal(ctx context.Context) {
	if c.p.database.slowJournal == "" {
		return
	}
	for _, mode := range c.ask(ctx, "table", c.p.database.slowJournal) {
		c.report(SeverityNote, "table", "the file has journal_mode "+mode[0]+": while dibs writes, other programs that read it fail with \"database is locked\"",
			"let every program wait (pragma busy_timeout = 10000), or let readers read on (pragma journal_mode = wal)")
	}
}
