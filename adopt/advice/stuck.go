package advice

import (
	"context"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// stuck is a kind of rows that no claim will ever take as they are.
type stuck struct {
	field, where string // the condition of such rows; empty: there can be none
	severity     Severity
	text, advice string // the finding's; text has a place for how many rows there are
	open         bool   // work waits for them
}

func (p *subject) stucks() []stuck {
	all := []stuck{p.stuckStrays(), p.stuckBetween(), p.stuckUnended()}
	if p.Running != "" && p.Available != "" {
		all = append(all, stuck{
			field: "running", severity: SeverityError, where: p.Waiting() + " and (" + p.Running + ")",
			text: "%s rows are both available and running: they would be claimed while somebody is at them",
		})
	}
	queue := "1 = 1"
	if p.Where != "" {
		queue = "(" + p.Where + ")"
		all = append(all, stuck{
			field: "where", severity: SeverityNote, where: queue + " is null",
			text: "%s rows belong to no queue by \"where\", which is null for them",
		})
	}
	all = append(all, stuck{
		field: "unfinished", severity: SeverityWarning, where: queue + " and (" + p.Unfinished + ") is null",
		text:   "%s rows are in no state: \"unfinished\" is null for them, so that they count as ended and nobody will ever take them",
		advice: "write \"unfinished\" so that it is true or false for every row, such as with: is not true, is distinct from, or coalesce",
	})
	if p.SideTable && !p.Sideless {
		all = append(all, stuck{
			field: "dead", severity: SeverityNote, where: p.Open + " and " + p.DeadBeside(),
			text:   "%s unfinished rows are dead by the side table alone: attempts at them failed for good, and nobody takes them",
			advice: "look at them with: dibs ls --table FILE --state dead; put them back with: dibs requeue --table FILE ID",
		})
	}
	if p.Kind != "" {
		all = append(all, stuck{
			field: "kind", severity: SeverityNote, where: p.Waiting() + " and " + p.KindColumn.SQL() + " is null",
			text: "%s available rows have no kind: only workers that ask for no kinds take them",
		})
	}
	if p.Before != nil {
		all = append(all, stuck{
			field: "not_before", severity: SeverityNote, where: p.Waiting() + " and " + p.Before.Column.SQL() + " > " + p.Before.After("31536000"),
			text: "%s available rows wait for more than a year, by " + p.Before.Name,
		})
	}
	if nulls := p.nullKey(); nulls != "" {
		all = append(all, stuck{
			field: "id", severity: SeverityWarning, where: p.Open + " and (" + nulls + ")",
			text: "%s unfinished rows have no id, so that nobody can take them", advice: "give them ids, and declare the column not null",
		})
	}
	return all
}

func (p *subject) stuckStrays() stuck {
	s := stuck{
		field: "side_table", severity: SeverityWarning, where: p.Stray(), open: true,
		text: "%s rows are in progress by the table's own columns, and no lease of ours holds them: programs that do not work through dibs are at them, " +
			"or have crashed. Nobody takes them while they are so",
	}
	if p.StrayLate() == "" {
		s.advice = "name claim.started_at or claim.timeout, if the table has such a column, and they are taken when their time is over; else, once nobody is at them, put them back: " + p.putBackStrays()
		return s
	}
	if s.where != "" { // the others are taken when their time comes
		s.where += " and (" + p.unknownEnd() + " or (" + p.AtWork + ") is not true)"
		s.text += ", and they lack the time that would end it"
		s.advice = "set that time, or, once nobody is at them, put them back: " + p.putBackStrays()
	}
	return s
}

// putBackStrays is SQL for people, where it can be written.
func (p *subject) putBackStrays() string {
	sets := p.BackSets(adopted.Values{Err: "null", Result: "null", Delay: "null"}, "")
	if sets == "" || p.Stray() == "" {
		return "set what \"available\" looks at"
	}
	return p.Dialect.Qualified("update " + p.Table + " as t set " + sets + " where " + p.Stray())
}

func (p *subject) stuckBetween() stuck {
	s := stuck{
		field: "running", severity: SeverityWarning, open: true,
		text:   "%s unfinished rows are neither available nor running: nobody will ever take them",
		advice: "see that \"available\", \"running\" and \"unfinished\" tell every row",
	}
	if p.Available != "" && !p.LockOnly() && !p.SideTable {
		s.where = p.Open + " and (" + p.Available + ") is not true and (" + p.AtWork + ") is not true"
	}
	return s
}

func (p *subject) stuckUnended() stuck {
	s := stuck{
		field: "claim", severity: SeverityWarning, open: true,
		text: "%s rows are running, but without the time that would end their lease: they stay taken for ever", advice: "set that time, or put them back by hand",
	}
	switch {
	case p.SideTable || p.LockOnly():
	case p.Ends():
		s.where = p.AtWork + " and " + p.unknownEnd()
	default:
		s.where, s.severity = p.AtWork, SeverityNote
		s.text = "%s rows are running, and nothing tells when a claim ends: those of killed workers stay taken until somebody puts them back"
		s.advice = "name claim.started_at or claim.timeout, if the table has such a column, or set side_table"
	}
	return s
}

// unknownEnd is true for rows that lack the time which ends a lease.
func (p *subject) unknownEnd() string {
	if t := p.ending(); t != nil {
		return t.Column.SQL() + " is null"
	}
	return "1 = 0"
}

// ending is the column that tells when a lease ends.
func (p *subject) ending() *adopted.Timed {
	if p.Timeout != nil {
		return p.Timeout
	}
	return p.Started
}

// nullKey is true for rows that no id names; empty: there can be none.
func (p *subject) nullKey() string {
	var nulls []string
	for _, k := range p.Keys {
		if k.Loose {
			nulls = append(nulls, k.SQL()+" is null")
		}
	}
	return strings.Join(nulls, " or ")
}

// stuck finds rows that would never be taken; with open, only those that work waits for.
func (c *checker) stuck(ctx context.Context, open bool) error {
	p := *c.p.Plan
	var err error
	if p.Sideless, err = p.LacksSideTable(ctx, c.db); err != nil {
		return err
	}
	for _, k := range (&subject{&p, c.p.of}).stucks() {
		if k.where == "" || open && !k.open {
			continue
		}
		n, ok, err := c.count(ctx, k.field, "select 1 from "+c.p.Table+" t where "+k.where)
		if err != nil {
			return err
		}
		if ok && n > 0 {
			c.add(k.severity, k.field, k.advice, k.text, atMost(n))
		}
	}
	return nil
}

// Stuck tells of unfinished rows that no claim will ever take as they are, such as
// rows that a program which has crashed had taken before dibs came. It only reads, and
// gives up a look that takes longer than half a second.
func Stuck(ctx context.Context, s *adopt.Store) ([]Finding, error) {
	p, db := s.Inside()
	c := &checker{db: db, queue: s.Queue(), p: subjectOf(p), limit: stuckTime}
	if err := c.stuck(ctx, true); err != nil {
		return nil, adopted.Classify("look for stuck rows", err)
	}
	return c.found, nil
}

const stuckTime = 500 * time.Millisecond
