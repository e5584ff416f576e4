package advice

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

const statusNames = "status state stage phase"

// isStatus reports whether a column is a status by its name.
func isStatus(c adopted.Column) bool {
	return slices.ContainsFunc(words(c.Name), func(w string) bool { return slices.Contains(strings.Fields(statusNames), w) })
}

// statuses looks at columns that by their names are a status: which of their values
// the mapping would take without looking at them, and which it never takes.
func (c *checker) statuses(ctx context.Context) error {
	named := func(col adopted.Column, field string) bool {
		return slices.ContainsFunc(c.p.Conds, func(d *adopted.Condition) bool {
			return (field == "" || d.Field == field) && (d.Names(col) || d.WholeRow() || d.Has("select"))
		})
	}
	for _, col := range c.p.On.Columns {
		if !isStatus(col) || col.Kind != adopted.Text && col.Kind != adopted.Integer && col.Kind != adopted.Other {
			continue
		}
		var err error
		switch {
		case !named(col, ""):
			err = c.takenUnseen(ctx, col)
		case named(col, "unfinished"):
			err = c.neverTaken(ctx, col)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takenUnseen warns of a status that no condition looks at.
func (c *checker) takenUnseen(ctx context.Context, col adopted.Column) error {
	have, ok, err := c.tallies(ctx, col, c.p.Waiting())
	if err != nil || !ok || len(have) < 2 {
		return err
	}
	c.add(SeverityWarning, "unfinished", fmt.Sprintf("say in \"unfinished\" which of them are to be done, such as: %s in (…)", col.Name),
		"no condition looks at %s: it would take rows with %s", col.Name, strings.Join(have, ", "))
	return nil
}

// neverTaken tells of values of a status that the mapping does not know.
func (c *checker) neverTaken(ctx context.Context, col adopted.Column) error {
	p := c.p
	where := "((" + p.Unfinished + ") is not true)"
	if p.Where != "" {
		where += " and (" + p.Where + ")"
	}
	var known []string
	for _, v := range append(c.comparedValues()[col.Name], c.writtenValues()[col.Name]...) {
		lit, err := p.Dialect.Literal(v.text)
		if err != nil {
			return err
		}
		known = append(known, lit)
	}
	if v := col.SQL(); len(known) > 0 {
		where += " and (" + v + " is null or not (" + p.Dialect.AsText(v) + " in (" + strings.Join(known, ", ") + ")))"
	}
	have, ok, err := c.tallies(ctx, col, where)
	if err != nil || !ok || len(have) == 0 {
		return err
	}
	c.add(SeverityNote, "unfinished", "if some of them are to be done, name them in \"unfinished\" and \"available\"",
		"these rows are not unfinished, and no outcome here leaves rows so: nobody will ever take those with %s %s", col.Name, strings.Join(have, ", "))
	return nil
}

// tallies lists the values of a column with how many of the rows that were looked at
// have them. ok is false if there are too many for a status.
func (c *checker) tallies(ctx context.Context, col adopted.Column, where string) (all []string, ok bool, err error) {
	rows, ok, err := c.ask(ctx, col.Name, fmt.Sprintf(
		"select v, case when v is null then 1 else 0 end, count(*) from (select %s as v from %s t where %s limit %d) x group by v order by 2, 3 desc, v limit %d",
		c.p.Dialect.AsText(col.SQL()), c.p.Table, where, checkRows, mostValues+1))
	if err != nil || !ok || len(rows) > mostValues {
		return nil, false, err
	}
	for _, r := range rows {
		all = append(all, counted(r[0], adopted.Yes(r[1]), adopted.Atoi(r[2])))
	}
	return all, true, nil
}

// journal tells what other programs meet where SQLite's readers and writers wait for
// each other.
func (c *checker) journal(ctx context.Context) error {
	if c.p.of.journalMode == "" {
		return nil
	}
	rows, ok, err := c.ask(ctx, "table", c.p.of.journalMode)
	if err != nil || !ok || len(rows) == 0 || rows[0][0] == "wal" || rows[0][0] == "memory" {
		return err
	}
	c.add(SeverityNote, "table", "have every program wait (pragma busy_timeout = 10000), or let readers go on with: pragma journal_mode = wal",
		"the file has journal_mode %s: while dibs writes, other programs that read it are told \"database is locked\"", rows[0][0])
	return nil
}
