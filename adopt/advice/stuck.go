package advice

import (
	"context"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// stuck describes rows that no claim will ever take as they are.
type stuck struct {
	field, where string // field of the mapping, and condition of such rows; empty: there can be none
	severity     Severity
	text, advice string // text and advice of the finding; text contains %s for the number of rows
	pending      bool   // these rows are work to be done, and every open store reports them
}

func (p *subject) stucks() []stuck {
	all := []stuck{p.stuckStrays(), p.stuckBetween(), p.stuckUnended(), p.inProgress()}
	if where := p.Spent(); where != "" {
		all = append(all, stuck{
			field: "max_attempts", severity: SeverityWarning, where: where, pending: true,
			text:   "%s rows wait whose attempts are used up, so no claim takes them: the next sweep of a worker of dibs ends them as dead",
			advice: "if they are to be tried again, give them their attempts back: " + p.AllAttempts(),
		})
	}
	if p.Running != "" && p.Available != "" {
		all = append(all, stuck{
			field: "running", severity: SeverityError, where: p.Waiting() + " and (" + p.Running + ")",
			text: "%s rows are both available and running: they would be claimed while another worker runs them",
		})
	}
	queue := "1 = 1"
	if p.Where != "" {
		queue = "(" + p.Where + ")"
		all = append(all, stuck{
			field: "where", severity: SeverityNote, where: queue + " is null",
			text: "%s rows belong to no queue: \"where\" is null for them",
		})
	}
	all = append(all, stuck{
		field: "unfinished", severity: SeverityWarning, where: queue + " and (" + p.Unfinished + ") is null",
		text:   "%s rows have no state: \"unfinished\" is null for them, so they count as ended, and nobody will ever take them",
		advice: "write \"unfinished\" so that it is true or false for every row, for example with: is not true, is distinct from, or coalesce",
	})
	if p.SideTable && !p.Sideless {
		all = append(all, stuck{
			field: "dead", severity: SeverityNote, where: p.Open + " and " + p.DeadBeside(),
			text:   "%s unfinished rows are dead only in the side table: attempts at them failed for good, and nobody takes them",
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
			text: "%s available rows wait for more than a year, according to " + p.Before.Name,
		})
	}
	if nulls := p.nullKey(); nulls != "" {
		all = append(all, stuck{
			field: "id", severity: SeverityWarning, where: p.Open + " and (" + nulls + ")",
			text: "%s unfinished rows have no id, so nobody can take them", advice: "give them ids, and declare the column not null",
		})
	}
	return all
}

func (p *subject) stuckStrays() stuck {
	s := stuck{
		field: "side_table", severity: SeverityWarning, where: p.Stray(), pending: true,
		text: "%s rows are in progress by the table's own columns, but dibs holds no lease on them: other programs run them, " +
			"or have crashed. Nobody takes these rows until their state changes",
	}
	if p.StrayLate() == "" {
		s.advice = "name claim.started_at or claim.timeout, if the table has such a column, and they are taken when their time has passed; else, once no program runs them, put them back: " + p.putBackStrays()
		return s
	}
	if s.where != "" { // rows that have an end are taken after it
		s.where += " and (" + p.unknownEnd() + " or (" + p.AtWork + ") is not true)"
		s.text += ", and they lack the time that would end this state"
		s.advice = "set that time, or, once no program runs them, put them back: " + p.putBackStrays()
	}
	return s
}

// putBackStrays is a statement for people to run, or advice in words if there can be none.
func (p *subject) putBackStrays() string {
	sets := p.BackSets(adopted.Values{Err: "null", Result: "null", Delay: "null"}, "")
	if sets == "" || p.Stray() == "" {
		return "change the columns that \"available\" compares"
	}
	return p.Dialect.Qualified("update " + p.Table + " as t set " + sets + " where " + p.Stray())
}

func (p *subject) stuckBetween() stuck {
	s := stuck{
		field: "running", severity: SeverityWarning, pending: true,
		text:   "%s unfinished rows are neither available nor running: nobody will ever take them",
		advice: "write \"available\", \"running\" and \"unfinished\" so that together they cover every row",
	}
	if p.Available != "" && !p.LockOnly() && !p.SideTable {
		s.where = p.Open + " and (" + p.Available + ") is not true and (" + p.AtWork + ") is not true"
	}
	return s
}

func (p *subject) stuckUnended() stuck {
	s := stuck{
		field: "claim", severity: SeverityWarning, pending: true,
		text: "%s rows are running, but without the time that would end their lease: they stay claimed for ever", advice: "set that time, or put them back by hand",
	}
	switch {
	case p.SideTable || p.LockOnly():
	case p.Ends():
		s.where = p.AtWork + " and " + p.unknownEnd()
	default:
		s.where, s.severity = p.AtWork, SeverityNote
		s.text = "%s rows are running, and no column says when a claim ends: those of killed workers stay claimed until somebody puts them back"
		s.advice = "name claim.started_at or claim.timeout, if the table has such a column, or set side_table"
	}
	return s
}

// inProgress tells of rows that dibs takes over once their time has passed, whoever has taken them.
func (p *subject) inProgress() stuck {
	s := stuck{field: "lease", severity: SeverityNote}
	t := p.ending()
	switch {
	case t == nil || p.LockOnly():
		return s
	case !p.SideTable:
		s.where = p.AtWork
	default:
		s.where = p.Stray()
	}
	if s.where == "" {
		return s
	}
	s.where += " and " + t.Column.SQL() + " is not null"
	s.text = "%s rows are in progress. Whoever has taken them, dibs takes them over " + p.Lease.String() + " after their " + t.Name
	if p.Timeout != nil {
		s.text = "%s rows are in progress. Whoever has taken them, dibs takes them over when their " + t.Name + " has passed"
	}
	s.advice = "if other programs work on the table, give the mapping the time after which they take such rows again, or more"
	return s
}

// unknownEnd is a condition for rows that lack the time that ends their lease.
func (p *subject) unknownEnd() string {
	if t := p.ending(); t != nil {
		return t.Column.SQL() + " is null"
	}
	return "1 = 0"
}

// ending is the column from which the end of a lease follows.
func (p *subject) ending() *adopted.Timed {
	if p.Timeout != nil {
		return p.Timeout
	}
	return p.Started
}

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

// stuck reports rows that no claim will ever take; with onlyPending, only those that are work to be done.
func (c *checker) stuck(ctx context.Context, onlyPending bool) error {
	p := *c.p.Plan
	var err error
	if p.Sideless, err = p.LacksSideTable(ctx, c.db); err != nil {
		return err
	}
	for _, k := range (&subject{&p, c.p.database}).stucks() {
		if k.where == "" || onlyPending && !k.pending {
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

// Stuck reports unfinished rows that no claim will ever take as they are, such as rows that
// another program had taken before it crashed. It only reads, and gives up a query that
// takes longer than half a second.
func Stuck(ctx context.Context, s *adopt.Store) ([]Finding, error) {
	p, db := s.Inside()
	c := &checker{db: db, queue: s.Queue(), p: subjectOf(p), limit: stuckTime}
	if err := c.stuck(ctx, true); err != nil {
		return nil, adopted.Classify("look for stuck rows", err)
	}
	return c.found, nil
}

const stuckTime = 500 * time.Millisecond
