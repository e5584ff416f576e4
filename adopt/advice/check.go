package advice

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// Check compares mappings with the catalogue and the data of their tables. It reports whether
// each mapping fits, how safe it is, what a claim costs, and which rows and values look wrong.
// It changes nothing: what it tries is rolled back. Each query of the data ends after two seconds
// at the latest; of a large table it reads only some of the rows.
//
// Check returns an error only if a query of the database fails.
func Check(ctx context.Context, db *sql.DB, mappings ...mapping.Mapping) ([]Finding, error) {
	var all []Finding
	var fit []*subject
	for _, m := range mappings {
		c := &checker{db: db, queue: adopted.WithDefaults(m).Queue, limit: checkTime}
		err := try(ctx, db, m, func(t *trial) error {
			c.p = t.subject
			for _, step := range []func(context.Context, *trial) error{c.refused, c.attempts, c.cost, c.outcomes} {
				if err := step(ctx, t); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			fit = append(fit, c.p)
			err = c.inspect(ctx)
		}
		var bad *dibs.InvalidError
		switch {
		case errors.As(err, &bad):
			c.report(SeverityError, bad.Field, bad.Reason, "")
		case adopted.Forbidden(err):
			c.report(SeverityError, "table", fmt.Sprintf("a claim cannot be made: %v", err),
				"grant this user select and update on the table (and delete, if an outcome deletes), and create on its schema for a side table")
		case err != nil:
			return all, adopted.Classify("check", err)
		}
		all = append(all, c.found...)
	}
	for i, p := range fit {
		for _, other := range fit[:i] {
			found, err := overlap(ctx, db, p, other)
			if err != nil {
				return all, adopted.Classify("check", err)
			}
			all = append(all, found...)
		}
	}
	rank := []Severity{SeverityError, SeverityWarning, SeverityNote}
	slices.SortStableFunc(all, func(a, b Finding) int { return slices.Index(rank, a.Severity) - slices.Index(rank, b.Severity) })
	return all, nil
}

// checker collects the findings about one mapping.
type checker struct {
	db    *sql.DB
	queue string
	p     *subject
	limit time.Duration // how long one query of the data may take
	found []Finding
	err   error // first error of the database
}

func (c *checker) report(s Severity, field, text, advice string) {
	c.found = append(c.found, Finding{c.queue, s, field, text, advice})
}

// inspect reports what the catalogue and the data show, without a trial of the mapping.
func (c *checker) inspect(ctx context.Context) error {
	p := c.p
	if p.Sideless, c.err = p.LacksSideTable(ctx, c.db); c.err != nil {
		return c.err
	}
	c.apply(ctx, p.fence(), p.leases(), p.definition())
	c.order(ctx)
	c.values(ctx)
	c.statuses(ctx)
	c.apply(ctx, p.perhapsTaken())
	c.contrasts(ctx)
	c.apply(ctx, p.unclaimed(), p.surprising())
	c.times(ctx)
	c.journal(ctx)
	return c.err
}

// What a query does not answer in time is left out of a report. Tests, also on slow machines, allow more (export_test.go).
var (
	checkTime = 2 * time.Second        // longest time that a query of Check may take
	briefTime = 500 * time.Millisecond // longest time of a query about an open store, and of one that is made for each column
)

const (
	maxCount  = 1000   // a count of rows stops here
	checkRows = 20_000 // most rows that a check reads
)

// count counts the rows that a query finds, up to maxCount. It returns -1 if that takes too long or fails.
func (c *checker) count(ctx context.Context, about, query string) int64 {
	rows := c.ask(ctx, about, fmt.Sprintf("select count(*) from (%s limit %d) x", query, maxCount))
	if rows == nil {
		return -1
	}
	return adopted.Atoi(rows[0][0])
}

// ask returns the rows of a query. If the query takes too long, a note says so, and there are no rows.
// After an error, which c.err keeps, no query is asked any more.
func (c *checker) ask(ctx context.Context, about, query string) (rows [][]string) {
	if c.err != nil {
		return nil
	}
	rows, c.err = c.p.Dialect.Look(ctx, c.db, c.limit, query, nil)
	if c.err != nil && adopted.TooLong(c.err) {
		c.report(SeverityNote, about, fmt.Sprintf("was not checked: the table is too large to do so within %v", c.limit), "")
		rows, c.err = nil, nil
	}
	return rows
}

// atMost writes a count of rows, which stops at maxCount.
func atMost(n int64) string {
	if n >= maxCount {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

// timedField is a column of times with the mapping's field that names it.
type timedField struct {
	field string
	*adopted.Timed
}

func (p *subject) timed() []timedField {
	all := []timedField{{"not_before", p.Before}, {"claim.started_at", p.Started}, {"claim.timeout", p.Timeout}}
	return slices.DeleteFunc(all, func(t timedField) bool { return t.Timed == nil })
}

// overlap finds rows that two queues would both claim.
func overlap(ctx context.Context, db *sql.DB, p, other *subject) ([]Finding, error) {
	if p.On.Schema != other.On.Schema || p.On.Name != other.On.Name || p.disjoint(other) {
		return nil, nil
	}
	c := &checker{db: db, queue: p.Queue, p: p, limit: checkTime}
	const advice = "give both a \"where\" that compares one column with different values, such as kind = 'mail' and kind = 'sms'"
	switch n := c.count(ctx, "where", "select 1 from "+p.Table+" t where "+p.Open+" and "+other.Open); {
	case n > 0:
		c.report(SeverityError, "where", fmt.Sprintf("%s rows are unfinished for queue %s, too: both queues would claim them", atMost(n), other.Queue), advice)
	case n == 0:
		c.report(SeverityWarning, "where", fmt.Sprintf("no row is in queue %s, too, so far; but nothing in the conditions excludes it", other.Queue), advice)
	}
	return c.found, c.err
}

// disjoint reports whether the conditions of two queues compare one column with different values.
func (p *subject) disjoint(other *subject) bool {
	theirs := other.fixedValues()
	for name, v := range p.fixedValues() {
		if w, ok := theirs[name]; ok && v != w {
			return true
		}
	}
	return false
}

// fixedValues maps each column to its value, if all unfinished rows of the queue must have the same one.
func (p *subject) fixedValues() map[string]string {
	all := map[string]string{}
	for _, c := range p.Conds {
		if c.Field == "where" || c.Field == "unfinished" {
			for _, x := range p.equalities(c) {
				all[x.Name] = x.Values[0]
			}
		}
	}
	return all
}

// equalities lists the comparisons of a simple condition that allow a column one value only.
// It lists none of a condition with or, not or case.
func (p *subject) equalities(c *adopted.Condition) []adopted.Comparison {
	if c.Has("or") || c.Has("not") || c.Has("case") {
		return nil
	}
	return slices.DeleteFunc(p.Comparisons(c), func(x adopted.Comparison) bool { return len(x.Values) > 1 })
}
