package advice

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// Severity says how bad a finding is.
type Severity string

// Severities, the worst first.
const (
	SeverityError   Severity = "error"   // the mapping cannot be used, or rows would be worked on twice or never
	SeverityWarning Severity = "warning" // the mapping works, but is slow or less safe than it looks
	SeverityNote    Severity = "note"    // good to know
)

// Finding is one result of Check.
type Finding struct {
	Queue    string   `json:"queue"` // queue of the mapping
	Severity Severity `json:"severity"`
	Field    string   `json:"field"` // field of the mapping, or another topic such as "index"
	Text     string   `json:"text"`
	Advice   string   `json:"advice,omitempty"` // what to do
}

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
			refused, err := t.refused(ctx)
			if c.found = append(c.found, refused...); err != nil {
				return err
			}
			if err := c.attempts(ctx, t); err != nil {
				return err
			}
			if err := c.cost(ctx, t); err != nil {
				return err
			}
			return c.outcomes(ctx, t)
		})
		if err == nil {
			fit = append(fit, c.p)
			err = c.inspect(ctx)
		}
		var bad *dibs.InvalidError
		switch {
		case errors.As(err, &bad):
			c.add(SeverityError, bad.Field, "", "%s", bad.Reason)
		case adopted.Forbidden(err):
			c.add(SeverityError, "table", "grant this user select and update on the table (and delete, if an outcome deletes), and create on its schema for a side table",
				"a claim cannot be made: %v", err)
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

// checker checks one mapping.
type checker struct {
	db    *sql.DB
	queue string
	p     *subject
	limit time.Duration // how long one query of the data may take
	found []Finding
}

func (c *checker) add(s Severity, field, advice, text string, args ...any) {
	c.found = append(c.found, Finding{c.queue, s, field, fmt.Sprintf(text, args...), advice})
}

// inspect checks everything but the cost.
func (c *checker) inspect(ctx context.Context) error {
	for _, says := range c.p.promises() {
		c.add(SeverityNote, "safety", "", "%s", says)
	}
	c.triggers()
	c.columns()
	all := func(ctx context.Context) error { return c.stuck(ctx, false) }
	for _, step := range []func(context.Context) error{c.order, c.values, c.statuses, c.taken, c.contrasts, all, c.times, c.journal} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

const (
	checkTime = 2 * time.Second
	maxCount  = 1000   // a count of rows stops here
	checkRows = 20_000 // most rows that a check reads
)

// count counts the rows that a query finds, up to maxCount. ok is false if that takes too long.
func (c *checker) count(ctx context.Context, about, query string) (n int64, ok bool, err error) {
	rows, ok, err := c.ask(ctx, about, fmt.Sprintf("select count(*) from (%s limit %d) x", query, maxCount))
	if !ok || err != nil {
		return 0, ok, err
	}
	return adopted.Atoi(rows[0][0]), true, nil
}

func (c *checker) ask(ctx context.Context, about, query string) (rows [][]string, ok bool, err error) {
	rows, err = c.p.Dialect.Look(ctx, c.db, c.limit, query, nil)
	if err != nil && adopted.TooLong(err) {
		c.add(SeverityNote, about, "", "was not checked: the table is too large to do so within %v", c.limit)
		return nil, false, nil
	}
	return rows, err == nil, err
}

// atMost writes a count that may have been cut off.
func atMost(n int64) string {
	if n >= maxCount {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

func (c *checker) triggers() {
	if t := c.p.On.Triggers; len(t) > 0 {
		c.add(SeverityNote, "table", "make sure that they are quick, and do not undo what a claim or an outcome sets",
			"has triggers, which run when a claim or an outcome changes a row: %s", strings.Join(t, ", "))
	}
}

// columns checks the types of the mapped columns.
func (c *checker) columns() {
	p := c.p
	if l, ok := p.On.Column(p.Claim.LockedBy); ok && l.Length > 0 && l.Length < 40 {
		c.add(SeverityWarning, "claim.locked_by", fmt.Sprintf("give workers names of %d characters at most (--worker), or widen the column", l.Length),
			"%s holds %d characters; a longer worker name (host and process) is cut off, and then two workers may have the same", l.Name, l.Length)
	}
	if p.Dead != nil && p.Dead.Delete {
		c.add(SeverityWarning, "dead", "let it set columns, such as a status and $error, or set side_table, which keeps dead rows",
			"rows that have used up their attempts are deleted: nothing is left of them but a line in the log of the worker that ended them")
	}
	for _, t := range c.timed() {
		switch {
		case t.Kind == adopted.Stamp && !p.Dialect.Loose && p.Times == "":
			c.add(SeverityNote, t.field, "write times: utc if other programs store UTC in it; else times: local, and give all sessions the same time zone",
				"%s has no time zone; dibs takes it to be in UTC", t.Name)
		case t.Grain >= time.Second && t.field != "not_before":
			c.add(SeverityNote, t.field, "", "%s holds whole seconds; leases may end up to a second late", t.Name)
		}
	}
	for _, o := range p.Ordering {
		if o.Null && slices.ContainsFunc(p.Mapping.Order, func(s string) bool { return strings.HasPrefix(s, o.Name) }) {
			where := map[bool]string{true: "first", false: "last"}[p.database.nullsFirst != o.Desc]
			c.add(SeverityNote, "order", "", "%s may be null; %s claims such rows %s", o.Name, p.Dialect.Title, where)
		}
	}
}

// timedField is a column of times with the mapping's field that names it.
type timedField struct {
	field string
	*adopted.Timed
}

func (c *checker) timed() []timedField {
	all := []timedField{{"not_before", c.p.Before}, {"claim.started_at", c.p.Started}, {"claim.timeout", c.p.Timeout}}
	return slices.DeleteFunc(all, func(t timedField) bool { return t.Timed == nil })
}

// overlap finds rows that two queues would both claim.
func overlap(ctx context.Context, db *sql.DB, p, other *subject) ([]Finding, error) {
	if p.On.Schema != other.On.Schema || p.On.Name != other.On.Name || p.disjoint(other) {
		return nil, nil
	}
	c := &checker{db: db, queue: p.Queue, p: p, limit: checkTime}
	n, ok, err := c.count(ctx, "where", "select 1 from "+p.Table+" t where "+p.Open+" and "+other.Open)
	const advice = "give both a \"where\" that compares one column with different values, such as kind = 'mail' and kind = 'sms'"
	switch {
	case err != nil || !ok:
	case n > 0:
		c.add(SeverityError, "where", advice, "%s rows are unfinished for queue %s, too: both queues would claim them", atMost(n), other.Queue)
	default:
		c.add(SeverityWarning, "where", advice, "no row is in queue %s, too, so far; but nothing in the conditions excludes it", other.Queue)
	}
	return c.found, err
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

// fixedValues maps columns to the one value that the queue's unfinished rows have there.
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
// Of a condition with or, not or case it lists none.
func (p *subject) equalities(c *adopted.Condition) []adopted.Comparison {
	if c.Has("or") || c.Has("not") || c.Has("case") {
		return nil
	}
	return slices.DeleteFunc(p.Comparisons(c), func(x adopted.Comparison) bool { return len(x.Values) > 1 })
}
