package advice

import (
	"cmp"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// unclaimed has a row for each state in which rows are work to be done, and no claim will ever take them as they are.
// Every open store reports these.
func (p *subject) unclaimed() []rule {
	const strays = "{n} rows are in progress by the table's own columns, but dibs holds no lease on them: other programs run them, " +
		"or have crashed. Nobody takes these rows until their state changes"
	spent := p.Spent()
	return []rule{
		{
			p.Stray() != "" && p.StrayLate() == "", SeverityWarning, "side_table", p.Stray(), strays,
			"name claim.started_at or claim.timeout, if the table has such a column, and they are taken when their time has passed; else, once no program runs them, put them back: " + p.putBackStrays(),
		},
		{ // dibs takes rows that have an end after it
			p.StrayLate() != "", SeverityWarning, "side_table", p.Stray() + " and (" + p.unknownEnd() + " or (" + p.AtWork + ") is not true)",
			strays + ", and they lack the time that would end this state",
			"set that time, or, once no program runs them, put them back: " + p.putBackStrays(),
		},
		{
			p.Available != "" && p.inRow(), SeverityWarning, "running", p.Open + " and (" + p.Available + ") is not true and (" + p.AtWork + ") is not true",
			"{n} unfinished rows are neither available nor running: nobody will ever take them",
			"write \"available\", \"running\" and \"unfinished\" so that together they cover every row",
		},
		{
			p.inRow() && p.Ends(), SeverityWarning, "claim", p.AtWork + " and " + p.unknownEnd(),
			"{n} rows are running, but without the time that would end their lease: they stay claimed for ever",
			"set that time, or put them back by hand",
		},
		{
			p.inRow() && !p.Ends(), SeverityNote, "claim", p.AtWork,
			"{n} rows are running, and no column says when a claim ends: those of killed workers stay claimed until somebody puts them back",
			"name claim.started_at or claim.timeout, if the table has such a column, or set side_table",
		},
		{
			spent != "", SeverityWarning, "max_attempts", spent,
			"{n} rows wait whose attempts are used up, so no claim takes them: the next sweep of a worker of dibs ends them as dead",
			"if they are to be tried again, give them their attempts back: " + p.AllAttempts(),
		},
	}
}

// odd has a row for each other state in which rows are not what they seem.
func (p *subject) odd() []rule {
	running, until := p.AtWork, "" // rows in progress, and when dibs takes them over
	if p.SideTable {
		running = p.Stray()
	}
	if end := p.ending(); end != nil && running != "" {
		running += " and " + end.Column.SQL() + " is not null"
		if until = p.Lease.String() + " after their " + end.Name; p.Timeout != nil {
			until = "when their " + end.Name + " has passed"
		}
	}
	queue := cmp.Or(p.Where, "1 = 1")
	kind, before := p.KindColumn.SQL(), cmp.Or(p.Before, &adopted.Timed{})
	later := ""
	if p.Before != nil {
		later = before.Column.SQL() + " > " + before.After("31536000")
	}
	return []rule{
		{
			until != "" && running != "" && !p.LockOnly(), SeverityNote, "lease", running,
			"{n} rows are in progress. Whoever has taken them, dibs takes them over " + until,
			"if other programs work on the table, give the mapping the time after which they take such rows again, or more",
		},
		{
			p.Running != "" && p.Available != "", SeverityError, "running", p.Waiting() + " and (" + p.Running + ")",
			"{n} rows are both available and running: they would be claimed while another worker runs them", "",
		},
		{p.Where != "", SeverityNote, "where", "(" + queue + ") is null", "{n} rows belong to no queue: \"where\" is null for them", ""},
		{
			true, SeverityWarning, "unfinished", "(" + queue + ") and (" + p.Unfinished + ") is null",
			"{n} rows have no state: \"unfinished\" is null for them, so they count as ended, and nobody will ever take them",
			"write \"unfinished\" so that it is true or false for every row, for example with: is not true, is distinct from, or coalesce",
		},
		{
			p.SideTable && !p.Sideless, SeverityNote, "dead", p.Open + " and " + p.DeadBeside(),
			"{n} unfinished rows are dead only in the side table: attempts at them failed for good, and nobody takes them",
			"look at them with: dibs ls --table FILE --state dead; put them back with: dibs requeue --table FILE ID",
		},
		{p.Kind != "", SeverityNote, "kind", p.Waiting() + " and " + kind + " is null", "{n} available rows have no kind: only workers that ask for no kinds take them", ""},
		{
			p.Before != nil, SeverityNote, "not_before", p.Waiting() + " and " + later,
			"{n} available rows wait for more than a year, according to " + before.Name, "",
		},
		{
			p.nullKey() != "", SeverityWarning, "id", p.Open + " and (" + p.nullKey() + ")",
			"{n} unfinished rows have no id, so nobody can take them", "give them ids, and declare the column not null",
		},
	}
}

// putBackStrays is a statement for people to run, or advice in words if there can be none.
func (p *subject) putBackStrays() string {
	sets := p.BackSets(adopted.Values{Err: "null", Result: "null", Delay: "null"}, "")
	if sets == "" || p.Stray() == "" {
		return "change the columns that \"available\" compares"
	}
	return p.Dialect.Qualified("update " + p.Table + " as t set " + sets + " where " + p.Stray())
}

// unknownEnd is a condition for rows that lack the time that ends their lease.
func (p *subject) unknownEnd() string {
	if t := p.ending(); t != nil {
		return t.Column.SQL() + " is null"
	}
	return "1 = 0"
}

// ending is the column from which the end of a lease follows; nil: there is none.
func (p *subject) ending() *adopted.Timed { return cmp.Or(p.Timeout, p.Started) }

// nullKey is a condition for rows without an id; empty: there can be none.
func (p *subject) nullKey() string {
	var nulls []string
	for _, k := range p.Keys {
		if k.Loose {
			nulls = append(nulls, k.SQL()+" is null")
		}
	}
	return strings.Join(nulls, " or ")
}
