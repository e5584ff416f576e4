package advice

import (
	"context"
	"fmt"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// Full reports rows that are due, and that no claim takes since the limit of the queue or those of their groups are
// reached. It is a warning if that holds up all of them. It only reads, and gives up after half a second.
func Full(ctx context.Context, s *adopt.Store) ([]Finding, error) {
	p, db := s.Inside()
	c := &checker{db: db, queue: s.Queue(), p: subjectOf(p), limit: stuckTime}
	for _, look := range []func(context.Context) error{c.fullQueue, c.fullGroups} {
		if err := look(ctx); err != nil && !adopted.TooLong(err) {
			return nil, adopted.Classify("look for full groups", err)
		}
	}
	return c.found, nil
}

// run returns the rows of a statement of the plan.
func (c *checker) run(ctx context.Context, st *adopted.Statement) (rows [][]string, err error) {
	err = c.p.Dialect.Peek(ctx, c.db, c.limit, func(q adopted.Querier) error {
		rows, err = adopted.QueryAll(ctx, q, st.Text, st.Args(c.p.OneClaim())...)
		return err
	})
	return rows, err
}

func (c *checker) fullQueue(ctx context.Context) error {
	p := c.p
	if p.Do.Running == nil {
		return nil
	}
	rows, err := c.run(ctx, p.Do.Running)
	if err != nil || adopted.Atoi(rows[0][0]) < int64(p.Concurrency) {
		return err
	}
	if rows, err = c.run(ctx, p.Do.Counts); err == nil && adopted.Atoi(rows[0][1]) > 0 {
		c.add(SeverityWarning, "concurrency", "see which rows are in progress: dibs ls --table FILE --state running",
			"%s rows are due, and none can be claimed: as many as concurrency allows, %d, are in progress", rows[0][1], p.Concurrency)
	}
	return err
}

func (c *checker) fullGroups(ctx context.Context) error {
	p := c.p
	if p.Do.Full == nil {
		return nil
	}
	rows, err := c.run(ctx, p.Do.Full)
	if err != nil || adopted.Atoi(rows[0][1]) == 0 {
		return err
	}
	r := rows[0]
	severity, such := SeverityNote, fmt.Sprintf("%s of %s due rows wait for their groups", r[1], r[0])
	if r[0] == r[1] {
		severity, such = SeverityWarning, fmt.Sprintf("%s rows are due, and none can be claimed: they wait for their groups", r[0])
	}
	c.add(severity, "group", "see which rows are in progress: dibs ls --table FILE --state running. If rows of the same "+p.Mapping.Group.Column+" may run together, raise group.limit, or leave out group",
		"%s: rows in progress hold all places of %s groups, such as those of %.40q (limit %d)", such, r[2], r[3], p.Mapping.Group.Limit)
	return nil
}
