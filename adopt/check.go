package adopt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
)

// Severity says how bad a finding is.
type Severity string

// Severities, the worst first.
const (
	SeverityError   Severity = "error"   // the mapping cannot be used, or work would be done twice or never
	SeverityWarning Severity = "warning" // it works, but is slow or not as safe as it looks
	SeverityNote    Severity = "note"    // good to know
)

// Finding is something that Check has found.
type Finding struct {
	Queue    string   `json:"queue"` // of which mapping
	Severity Severity `json:"severity"`
	Field    string   `json:"field"` // of the mapping, or what it is about
	Text     string   `json:"text"`
	Advice   string   `json:"advice,omitempty"` // what to do
}

// Check looks at mappings with the catalogue and the data of their tables: whether
// they fit, what degree of safety each has, what claims cost, and rows and values
// that look wrong. It changes nothing: what it tries is rolled back. It looks at no more
// than some thousands of rows of a kind, and for no longer than two seconds at a time.
//
// An error is returned only if the database cannot be asked.
func Check(ctx context.Context, db *sql.DB, mappings ...Mapping) ([]Finding, error) {
	var all []Finding
	var fit []*subject
	for _, m := range mappings {
		c := &checker{db: db, queue: withDefaults(m).Queue, limit: checkTime}
		err := try(ctx, db, m, func(t *trial) error {
			c.p = t.subject
			if err := c.cost(ctx, t); err != nil {
				return err
			}
			return c.outcomes(ctx, t)
		})
		if err == nil {
			fit = append(fit, c.p)
			err = c.look(ctx)
		}
		var bad *dibs.InvalidError
		switch {
		case errors.As(err, &bad):
			c.add(SeverityError, bad.Field, "", "%s", bad.Reason)
		case forbidden(err):
			c.add(SeverityError, "table", "grant this user select and update on the table (and delete, if an outcome deletes), and create on its schema for a side table",
				"a claim cannot be made: %v", err)
		case err != nil:
			return all, classify("check", err)
		}
		all = append(all, c.found...)
	}
	for i, p := range fit {
		for _, other := range fit[:i] {
			found, err := overlap(ctx, db, p, other)
			if err != nil {
				return all, classify("check", err)
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
	limit time.Duration // of one look at the data
	found []Finding
}

func (c *checker) add(s Severity, field, advice, text string, args ...any) {
	c.found = append(c.found, Finding{c.queue, s, field, fmt.Sprintf(text, args...), advice})
}

// look is all that is checked beside the cost.
func (c *checker) look(ctx context.Context) error {
	for _, says := range c.p.degree().Says {
		c.add(SeverityNote, "safety", "", "%s", says)
	}
	c.triggers()
	c.columns()
	all := func(ctx context.Context) error { return c.stuck(ctx, false) }
	for _, step := range []func(context.Context) error{c.order, c.values, c.statuses, c.contrasts, all, c.times, c.journal} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

const (
	checkTime = 2 * time.Second
	checkMost = 1000   // rows that are counted
	checkRows = 20_000 // rows that are looked at
)

// count counts the rows that a query finds, up to checkMost. ok is false if that takes too long.
func (c *checker) count(ctx context.Context, about, query string) (n int64, ok bool, err error) {
	rows, ok, err := c.ask(ctx, about, fmt.Sprintf("select count(*) from (%s limit %d) x", query, checkMost))
	if !ok || err != nil {
		return 0, ok, err
	}
	return atoi(rows[0][0]), true, nil
}

func (c *checker) ask(ctx context.Context, about, query string) (rows [][]string, ok bool, err error) {
	err = c.p.d.peek(ctx, c.db, c.limit, func(q querier) error {
		rows, err = queryAll(ctx, q, c.p.d.qualified(query))
		return err
	})
	if err != nil && tooLong(err) {
		c.add(SeverityNote, about, "", "was not looked at: the table is too large to do it within %v", c.limit)
		return nil, false, nil
	}
	return rows, err == nil, err
}

// atMost writes a count that may have been cut off.
func atMost(n int64) string {
	if n >= checkMost {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

func (c *checker) triggers() {
	if t := c.p.on.triggers; len(t) > 0 {
		c.add(SeverityNote, "table", "see that they are quick, and do not undo what a claim or an outcome sets",
			"has triggers, which run with each claim and outcome that they are for: %s", strings.Join(t, ", "))
	}
}

// columns looks at the types of columns.
func (c *checker) columns() {
	p := c.p
	if l, ok := p.on.column(p.Claim.LockedBy); ok && l.length > 0 && l.length < 40 {
		c.add(SeverityWarning, "claim.locked_by", fmt.Sprintf("give workers names of %d characters at most (--worker), or widen the column", l.length),
			"%s holds %d characters; the name of a worker (host and process) is cut off there, so that two may look alike", l.name, l.length)
	}
	for _, t := range c.timed() {
		switch {
		case t.kind == stamp && !p.d.loose && p.Times == "":
			c.add(SeverityNote, t.field, "say times: utc if the programs that write it write UTC; else times: local, and give all sessions the same time zone",
				"%s has no time zone; it is taken to be in UTC", t.name)
		case t.grain >= time.Second && t.field != "not_before":
			c.add(SeverityNote, t.field, "", "%s holds whole seconds; leases end up to a second later", t.name)
		}
	}
	for _, o := range p.order {
		if o.null && slices.ContainsFunc(p.Mapping.Order, func(s string) bool { return strings.HasPrefix(s, o.name) }) {
			where := map[bool]string{true: "first", false: "last"}[p.of.nullsFirst != o.desc]
			c.add(SeverityNote, "order", "", "%s may be null; %s claims such rows %s", o.name, p.d.title, where)
		}
	}
}

// timedField is a column of times, and the field that names it.
type timedField struct {
	field string
	*timed
}

func (c *checker) timed() []timedField {
	all := []timedField{{"not_before", c.p.before}, {"claim.started_at", c.p.started}, {"claim.timeout", c.p.timeout}}
	return slices.DeleteFunc(all, func(t timedField) bool { return t.timed == nil })
}

// overlap finds rows that two queues would both do.
func overlap(ctx context.Context, db *sql.DB, p, other *subject) ([]Finding, error) {
	if p.on.schema != other.on.schema || p.on.name != other.on.name || p.disjoint(other) {
		return nil, nil
	}
	c := &checker{db: db, queue: p.Queue, p: p, limit: checkTime}
	n, ok, err := c.count(ctx, "where", "select 1 from "+p.Table+" t where "+p.Open+" and "+other.Open)
	const advice = "give both a \"where\" that compares one column with different values, such as kind = 'mail' and kind = 'sms'"
	switch {
	case err != nil || !ok:
	case n > 0:
		c.add(SeverityError, "where", advice, "%s rows are unfinished for queue %s, too: both would do them", atMost(n), other.Queue)
	default:
		c.add(SeverityWarning, "where", advice, "no row is in queue %s, too, as yet; but nothing in the conditions excludes it", other.Queue)
	}
	return c.found, err
}

// disjoint reports whether the conditions of two queues compare one column with different values.
func (p *subject) disjoint(other *subject) bool {
	theirs := other.fixedRows()
	for name, v := range p.fixedRows() {
		if w, ok := theirs[name]; ok && v != w {
			return true
		}
	}
	return false
}

// fixedRows are the values that columns of the queue's unfinished rows must have.
func (p *subject) fixedRows() map[string]string {
	conds, _ := p.conditions() // which have been seen
	all := map[string]string{}
	for _, c := range conds {
		if c.field == "where" || c.field == "unfinished" {
			for _, x := range p.fixed(c) {
				all[x.name] = x.values[0]
			}
		}
	}
	return all
}

// fixed are the columns that a condition compares with one value each, if it is plain enough to tell.
func (p *subject) fixed(c *condition) []comparison {
	if c.has("or") || c.has("not") || c.has("case") {
		return nil
	}
	return slices.DeleteFunc(p.comparisons(c), func(x comparison) bool { return len(x.values) > 1 })
}
