package advice

import (
	"context"
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// The functions of this file report on an open store. They only read, or roll back what they try.
// Each of their queries ends after half a second at the latest.

// checkerOf makes a checker of an open store.
func checkerOf(s *adopt.Store) *checker {
	p, db := s.Inside()
	own := *p // a checker sets Sideless, which the plan of the store must keep
	return &checker{db: db, queue: s.Queue(), p: subjectOf(&own), limit: briefTime}
}

// Stuck reports unfinished rows that no claim will ever take as they are, such as rows that
// another program had taken before it crashed. It only reads, and gives up a query that
// takes longer than half a second.
func Stuck(ctx context.Context, s *adopt.Store) ([]Finding, error) {
	c := checkerOf(s)
	if c.p.Sideless, c.err = c.p.LacksSideTable(ctx, c.db); c.err == nil {
		c.apply(ctx, c.p.unclaimed())
	}
	return c.found, adopted.Classify("look for stuck rows", c.err)
}

// Full reports rows that are due, and that no claim takes since the limit of the queue or those of their groups are
// reached. It is a warning if that holds up all of them. It only reads, and gives up after half a second.
func Full(ctx context.Context, s *adopt.Store) ([]Finding, error) {
	c := checkerOf(s)
	c.fullQueue(ctx)
	c.fullGroups(ctx)
	return c.found, adopted.Classify("look for full groups", c.err)
}

// firstRow returns the first row of a statement of the plan; nil: the plan has no such statement, or it takes too long.
func (c *checker) firstRow(ctx context.Context, st *adopted.Statement) (row []string) {
	if st == nil || c.err != nil {
		return nil
	}
	err := c.p.Dialect.Peek(ctx, c.db, c.limit, func(q adopted.Querier) error {
		rows, err := adopted.QueryAll(ctx, q, st.Text, st.Args(c.p.OneClaim())...)
		if err == nil {
			row = rows[0]
		}
		return err
	})
	if !adopted.TooLong(err) {
		c.err = err
	}
	return row
}

func (c *checker) fullQueue(ctx context.Context) {
	running := c.firstRow(ctx, c.p.Do.Running)
	if running == nil || adopted.Atoi(running[0]) < int64(c.p.Concurrency) {
		return
	}
	if counts := c.firstRow(ctx, c.p.Do.Counts); counts != nil && adopted.Atoi(counts[1]) > 0 {
		c.report(SeverityWarning, "concurrency", fmt.Sprintf("%s rows are due, and none can be claimed: as many as concurrency allows, %d, are in progress", counts[1], c.p.Concurrency),
			"see which rows are in progress: dibs ls --table FILE --state running")
	}
}

func (c *checker) fullGroups(ctx context.Context) {
	full := c.firstRow(ctx, c.p.Do.Full)
	if full == nil || adopted.Atoi(full[1]) == 0 {
		return
	}
	due, waiting, groups, example := full[0], full[1], full[2], full[3]
	severity, which := SeverityNote, fmt.Sprintf("%s of %s due rows wait for their groups", waiting, due)
	if due == waiting {
		severity, which = SeverityWarning, fmt.Sprintf("%s rows are due, and none can be claimed: they wait for their groups", due)
	}
	group := c.p.Mapping.Group
	c.report(severity, "group", fmt.Sprintf("%s: rows in progress hold all places of %s groups, such as those of %.40q (limit %d)", which, groups, example, group.Limit),
		"see which rows are in progress: dibs ls --table FILE --state running. If rows of the same "+group.Column+" may run together, raise group.limit, or leave out group")
}

// Refused reports rows that the table refuses to have claimed, such as by a constraint or a trigger. It tries the next
// few rows, as [Try] does, and claims none.
func Refused(ctx context.Context, s *adopt.Store) ([]Finding, error) {
	c := checkerOf(s)
	err := rolledBack(ctx, c.db, c.p, func(t *trial) error { return c.refused(ctx, t) })
	return c.found, adopted.Classify("look for rows that are refused", err)
}

// Ended reports rows that have ended as dead by what the mapping sets then: how many of which kinds, and the SQL that shows
// them. It counts up to 1,000 rows, and gives up after half a second.
func Ended(ctx context.Context, s *adopt.Store) ([]Finding, error) {
	c := checkerOf(s)
	p, where, kind := c.p, c.p.EndedDead(), "''"
	if where == "" {
		return nil, nil
	}
	if p.Kind != "" {
		kind = p.KindColumn.SQL()
	}
	rows := c.ask(ctx, "dead", fmt.Sprintf("select x.kind, count(*) from (select %s as kind from %s t where %s limit %d) x group by x.kind order by 2 desc, 1", kind, p.Table, where, maxCount))
	if len(rows) == 0 {
		return c.found, adopted.Classify("look for dead rows", c.err)
	}
	const named = 3 // kinds that the finding names
	var kinds []string
	all := int64(0)
	for i, r := range rows {
		if all += adopted.Atoi(r[1]); i < named {
			kinds = append(kinds, fmt.Sprintf("%.40q %s", r[0], r[1]))
		}
	}
	text := atMost(all) + " rows have ended as dead"
	if all == 1 {
		text = "1 row has ended as dead"
	}
	if p.Kind != "" {
		text += ", by kind: " + strings.Join(kinds, ", ")
		if more := len(rows) - named; more > 0 {
			text += fmt.Sprintf(" and %d other kinds", more)
		}
	}
	c.report(SeverityNote, "dead", text, p.Dialect.Qualified("select t.* from "+p.Table+" as t where "+where+" limit 100"))
	return c.found, nil
}
