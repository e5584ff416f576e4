package advice

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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

// rule is a row of the tables in this file: a finding with the conditions under which it is reported. To add one, write
// a row and a test. A finding that needs a trial, or values of rows, has a function in another file.
type rule struct {
	holds    bool // condition on the mapping and the definition of its table
	severity Severity
	field    string // field of the finding
	rows     string // condition in SQL on a row t; the finding is reported only if there are such rows. Empty: it needs none
	text     string // sentence, in which {n} stands for the number of these rows
	advice   string // what to do
}

// apply reports the rules that hold.
func (c *checker) apply(ctx context.Context, tables ...[]rule) {
	for _, r := range slices.Concat(tables...) {
		n := int64(1)
		if r.holds && r.rows != "" {
			n = c.count(ctx, r.field, "select 1 from "+c.p.Table+" t where "+r.rows)
		}
		if r.holds && n > 0 {
			c.report(r.severity, r.field, strings.Replace(r.text, "{n}", atMost(n), 1), r.advice)
		}
	}
}

// promises says in plain words which of dibs' promises a store of the mapping keeps, and which not.
func (p *subject) promises() (all []string) {
	for _, r := range slices.Concat(p.fence(), p.leases()) {
		if r.holds {
			all = append(all, r.text)
		}
	}
	return all
}

// safety is a note about how safe claims of a mapping are.
func safety(holds bool, text string, args ...any) rule {
	return rule{holds: holds, severity: SeverityNote, field: "safety", text: fmt.Sprintf(text, args...)}
}

// inRow reports whether columns of the adopted table hold leases.
func (p *subject) inRow() bool { return !p.SideTable && !p.LockOnly() }

// fence has a row for each way in which dibs tells the claims of a row apart.
func (p *subject) fence() []rule {
	names := adopted.Joined(p.Fence, ", ", func(_ int, c adopted.Column) string { return c.Name })
	others, worker := ", and would take the same rows", ""
	if p.Marked() {
		others = ", but do see what a claim sets"
	}
	if p.Claim.LockedBy != "" {
		worker = " by the same worker"
	}
	values := p.inRow() && p.Claim.Token == ""
	started := cmp.Or(p.Started, &adopted.Timed{})
	byTime, fine := values && p.Claim.Attempts == "" && p.Started != nil, started.Grain <= time.Millisecond
	return []rule{
		safety(p.SideTable, "fenced by a token in the side table %s (degree \"side table\"): a stale worker changes nothing. Programs that take rows by the table's own columns do not see these leases%s", p.SideName(), others),
		safety(p.LockOnly(), "a claim lasts as long as a transaction (degree \"transaction\"): only a row lock holds it, and neither workers nor the claim command can be used. Name columns that a claim may write, or set side_table"),
		safety(p.inRow() && !values, "fenced by the token in %s (degree \"token\"): a stale worker changes nothing", p.Claim.Token),
		safety(values, "fenced by the exact values of %s (degree \"exact values\"): a worker whose claim has ended changes nothing, unless a later claim of the row wrote the same values", names),
		safety(values && p.Claim.Attempts != "", "two claims of a row look alike only if somebody sets %s back, which each claim counts up", p.Claim.Attempts),
		safety(byTime && fine, "two claims of a row%s look alike only if both are made within one unit of %s, which holds %s", worker, started.Name, started.Steps()),
		safety(byTime && !fine, "%s holds %s: two claims of a row%s within one of these look alike. A token column would tell them apart", started.Name, started.Steps(), worker),
		safety(values && p.Claim.Attempts == "" && p.Started == nil, "two claims of a row by workers of the same name look alike: give every worker its own name, and name a token or started_at column if you can"),
	}
}

// leases has the rows about the end of a claim, and about what attempts leave behind.
func (p *subject) leases() []rule {
	started, timeout := cmp.Or(p.Started, &adopted.Timed{}), cmp.Or(p.Timeout, &adopted.Timed{})
	end := cmp.Or(p.Timeout, p.Started, &adopted.Timed{})
	return []rule{
		safety(p.inRow() && p.Timeout != nil, "%s says when a claim ends, %v after it was made or extended: then the rows of a killed worker are claimed again", timeout.Name, p.Lease),
		safety(p.inRow() && p.Timeout == nil && p.Started != nil, "a claim ends %v after the time in %s: then the rows of a killed worker are claimed again. A worker that needs longer extends its claim by setting %[2]s to the current time", p.Lease, started.Name),
		safety(p.inRow() && !p.Ends(), "a claim does not end by itself: the rows of a killed worker stay claimed until somebody puts them back. Name a started_at or timeout column, or set side_table"),
		safety(p.inRow() && end.Kind == adopted.Stamp && p.Times == mapping.TimesLocal, "%s is in local time: give all sessions the same time zone, or leases end early; where clocks change, a lease can end an hour early or late", end.Name),
		safety(p.inRow() && p.Claim.LockedBy == "", "a restarted worker cannot take back its own rows (Resume): no column names the worker of a row"),
		safety(!p.SideTable && p.Claim.Attempts == "", "attempts are not counted: a row that fails, or kills its worker, is retried for ever. Name claim.attempts, or set side_table"),
		safety(!p.SideTable && p.Before == nil, "a row is available again at once after a failed attempt: no column holds the delay of a retry. Name not_before, or set side_table"),
		safety(!p.SideTable && !p.keepsErrors(), "the errors of attempts are logged but not stored: no outcome sets a column to $error, and there is no side table"),
		safety(p.SideTable, "if %s is missing, it is created when the mapping is first used, which needs the right to create a table in that schema", p.SideName()),
		safety(p.SideTable && p.Dead == nil, "rows that failed for good are dead only in %s: in the table they stay unfinished, and other programs and views see them so. Name what dead sets, if a column can hold it", p.SideName()),
		safety(!p.SideTable && p.Dead == nil, "rows that failed for good are put back and retried like others. Name what dead sets"),
	}
}

func (p *subject) keepsErrors() bool {
	return slices.ContainsFunc(p.Changes(), func(ch adopted.Change) bool {
		for _, v := range ch.Set {
			if v == "$error" {
				return true
			}
		}
		return false
	})
}

// definition has the rows that need only the mapping and the definition of its table.
func (p *subject) definition() []rule {
	worker, _ := p.On.Column(p.Claim.LockedBy)
	all := []rule{
		{
			len(p.On.Triggers) > 0, SeverityNote, "table", "",
			"has triggers, which run when a claim or an outcome changes a row: " + strings.Join(p.On.Triggers, ", "),
			"make sure that they are quick, and do not undo what a claim or an outcome sets",
		},
		{
			worker.Length > 0 && worker.Length < 40, SeverityWarning, "claim.locked_by", "",
			fmt.Sprintf("%s holds %d characters; a longer worker name (host and process) is cut off, and then two workers may have the same", worker.Name, worker.Length),
			fmt.Sprintf("give workers names of %d characters at most (--worker), or widen the column", worker.Length),
		},
		{
			p.Dead != nil && p.Dead.Delete, SeverityWarning, "dead", "",
			"rows that have used up their attempts are deleted: nothing is left of them but a line in the log of the worker that ended them",
			"let it set columns, such as a status and $error, or set side_table, which keeps dead rows",
		},
	}
	for _, t := range p.timed() {
		noZone := t.Kind == adopted.Stamp && !p.Dialect.Lenient && p.Times == ""
		all = append(all, rule{
			noZone, SeverityNote, t.field, "", t.Name + " has no time zone; dibs takes it to be in UTC",
			"write times: utc if other programs store UTC in it; else times: local, and give all sessions the same time zone",
		}, rule{
			!noZone && t.Grain >= time.Second && t.field != "not_before", SeverityNote, t.field, "",
			t.Name + " holds whole seconds; leases may end up to a second late", "",
		})
	}
	for _, o := range p.Ordering {
		named := slices.ContainsFunc(p.Mapping.Order, func(s string) bool { return strings.HasPrefix(s, o.Name) })
		where := map[bool]string{true: "first", false: "last"}[p.database.nullsFirst != o.Desc]
		all = append(all, rule{o.Null && named, SeverityNote, "order", "", o.Name + " may be null; " + p.Dialect.Title + " claims such rows " + where, ""})
	}
	return append(all, rule{
		len(p.Mapping.Order) == 0, SeverityNote, "order", "", "is not given: rows are claimed in the order of their ids",
		"name the columns to claim by, such as a priority or the time of creation",
	})
}

// perhapsTaken has a row for each column that by its name says since when, or by whom, a row is worked on, and at which no
// condition looks: another program may have taken rows that would be claimed.
func (p *subject) perhapsTaken() (all []rule) {
	for _, col := range p.On.Columns {
		when := (col.Kind == adopted.Instant || col.Kind == adopted.Stamp || col.Kind == adopted.Integer) && isNamed(col, startedNames)
		who := col.Kind == adopted.Text && isNamed(col, lockedByNames)
		all = append(all, rule{
			col.Null && (when || who) && !p.looksAt(col, ""), SeverityWarning, "available", p.Waiting() + " and " + col.SQL() + " is not null",
			"no condition looks at " + col.Name + ", which is set in {n} rows that would be claimed: another program may have taken them",
			"if another program sets " + col.Name + " when it takes a row, write in \"available\" that it is null, and name it in \"claim\"",
		})
	}
	return all
}

// unclaimed has a row for each state in which rows are work to be done, and no claim will ever take them as they are.
// Every open store reports these.
func (p *subject) unclaimed() []rule {
	const strays = "{n} rows are in progress by the table's own columns, but dibs holds no lease on them: other programs run them, " +
		"or have crashed. No worker takes these rows until their state changes"
	spent := p.Spent()
	return []rule{
		{
			p.Stray() != "" && p.StrayLate() == "", SeverityWarning, "side_table", p.Stray(), strays,
			"name claim.started_at or claim.timeout, if the table has such a column, and they are taken when their time has passed; else, once no program runs them, put them back: " + p.putBackStrays(),
		},
		{ // rows that have such a time are taken once it has passed
			p.StrayLate() != "", SeverityWarning, "side_table", p.Stray() + " and (" + p.unknownEnd() + " or (" + p.AtWork + ") is not true)",
			strays + ", and they lack the time that would end this state",
			"set that time, or, once no program runs them, put them back: " + p.putBackStrays(),
		},
		{
			p.Available != "" && p.inRow(), SeverityWarning, "running", p.Open + " and (" + p.Available + ") is not true and (" + p.AtWork + ") is not true",
			"{n} unfinished rows are neither available nor running: no worker will ever take them",
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

// surprising has a row for each other state of rows that people would not expect.
func (p *subject) surprising() []rule {
	running, until := p.AtWork, "" // condition for rows in progress; words that say when dibs takes these over
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
			"{n} rows are in progress: dibs takes them over " + until + ", also from other programs",
			"if other programs work on the table, give the mapping the time after which they take such rows again, or more",
		},
		{
			p.Running != "" && p.Available != "", SeverityError, "running", p.Waiting() + " and (" + p.Running + ")",
			"{n} rows are both available and running: they would be claimed while another worker runs them", "",
		},
		{p.Where != "", SeverityNote, "where", "(" + queue + ") is null", "{n} rows belong to no queue: \"where\" is null for them", ""},
		{
			true, SeverityWarning, "unfinished", "(" + queue + ") and (" + p.Unfinished + ") is null",
			"{n} rows have no state: \"unfinished\" is null for them, so they count as ended, and no worker will ever take them",
			"write \"unfinished\" so that it is true or false for every row, for example with: is not true, is distinct from, or coalesce",
		},
		{
			p.SideTable && !p.Sideless, SeverityNote, "dead", p.Open + " and " + p.DeadBeside(),
			"{n} unfinished rows are dead only in the side table: attempts at them failed for good, and no worker takes them",
			"look at them with: dibs ls --table FILE --state dead; put them back with: dibs requeue --table FILE ID",
		},
		{p.Kind != "", SeverityNote, "kind", p.Waiting() + " and " + kind + " is null", "{n} available rows have no kind: only workers that ask for no kinds take them", ""},
		{
			p.Before != nil, SeverityNote, "not_before", p.Waiting() + " and " + later,
			"{n} available rows wait for more than a year, according to " + before.Name, "",
		},
		{
			p.nullKey() != "", SeverityWarning, "id", p.Open + " and (" + p.nullKey() + ")",
			"{n} unfinished rows have no id, so no worker can take them", "give them ids, and declare the column not null",
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
		if k.NullInKey {
			nulls = append(nulls, k.SQL()+" is null")
		}
	}
	return strings.Join(nulls, " or ")
}
