package advice

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/chars"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Reason explains how Propose has filled in a field of the mapping.
type Reason struct {
	Field string `json:"field"`
	Text  string `json:"text"`
	// Unsure means that the catalogue and the data leave it open: check the field before you use the mapping.
	Unsure bool `json:"unsure,omitempty"`
}

// Propose makes a mapping for a table from its columns, its indexes and some of its rows.
// It goes by the names of columns, and so can be wrong: read the reasons. YAML writes the
// mapping and its reasons as a file; Check reports what the mapping can do.
func Propose(ctx context.Context, db *sql.DB, tableName string) (mapping.Mapping, []Reason, error) {
	p := &proposer{db: db, m: mapping.Mapping{Table: tableName}, taken: map[string]bool{}}
	p.propose(ctx)
	if p.err != nil {
		return p.m, nil, adopted.Classify("propose", p.err)
	}
	return p.m, p.reasons, nil
}

func (p *proposer) propose(ctx context.Context) {
	if p.dialect, p.table, p.err = tableNamed(ctx, p.db, p.m.Table); p.err != nil {
		return
	}
	p.database, p.m.Table = databases[p.dialect.Title], p.table.Called
	p.lookAtData(ctx)
	if checks.Name("queue", p.table.Called) != nil {
		p.m.Queue = "adopted"
		p.why("queue", "the default, the name of the table, is no valid name of a queue")
	}
	p.key()
	p.roles()
	p.tally(ctx)
	p.unfinished()
	p.discuss()
	p.available()
	p.claims()
	p.outcomes()
	p.order()
	p.otherFields()
	p.times()
	p.groups(ctx)
	p.followData(ctx)
	p.fit(ctx)
}

// look returns the rows of a query; none if it takes too long. After an error, which p.err keeps, no query is asked any
// more.
func (p *proposer) look(ctx context.Context, query string, args ...any) (rows [][]string) {
	if p.err != nil {
		return nil
	}
	rows, err := p.dialect.Look(ctx, p.db, checkTime, fmt.Sprintf(query, args...), nil)
	if adopted.TooLong(err) {
		return nil
	}
	p.err = err
	return rows
}

// fit reports what of the proposal does not fit the table yet. It proposes the side table if the times are too coarse to
// fence claims.
func (p *proposer) fit(ctx context.Context) {
	if p.err != nil {
		return
	}
	_, p.err = adopted.Prepare(ctx, p.db, p.m)
	var bad *dibs.InvalidError
	if !errors.As(p.err, &bad) {
		return
	}
	p.err = nil
	if bad.Field == "claim.started_at" && !p.m.SideTable {
		p.m.SideTable = true
		if _, again := adopted.Prepare(ctx, p.db, p.m); again == nil {
			p.why("side_table", "%s", bad.Reason)
			p.limitAttempts()
			return
		}
		p.m.SideTable = false
	}
	p.unsure(bad.Field, "does not fit yet: %s", bad.Reason)
}

// proposer fills in a mapping field by field.
type proposer struct {
	timeRoles
	otherRoles
	m        mapping.Mapping
	db       *sql.DB
	dialect  adopted.Dialect
	database database
	table    *adopted.Table
	data     data
	tallies  []tally // rows for each value of the status
	states   states  // meanings of these values
	reasons  []Reason
	taken    map[string]bool // columns that have a role
	err      error           // first error of the database
}

func (p *proposer) why(field, text string, args ...any) {
	p.reasons = append(p.reasons, Reason{Field: field, Text: fmt.Sprintf(text, args...)})
}

func (p *proposer) unsure(field, text string, args ...any) {
	p.reasons = append(p.reasons, Reason{Field: field, Text: fmt.Sprintf(text, args...), Unsure: true})
}

// key proposes the columns of a unique index: those of the primary key, else the fewest.
func (p *proposer) key() {
	unique := slices.DeleteFunc(slices.Clone(p.table.Indexes), func(x adopted.Index) bool {
		return !x.Unique || x.Where != "" || len(x.Columns) == 0 || slices.ContainsFunc(x.Columns, func(name string) bool {
			c, _ := p.table.Column(name)
			return c.Null
		})
	})
	if len(unique) == 0 {
		p.unsure("id", "there is no unique index on columns that cannot be null; add a primary key")
		return
	}
	rank := func(x adopted.Index) int {
		if strings.HasSuffix(x.Name, "_pkey") || x.Name == "PRIMARY" || x.Name == "rowid" {
			return 0
		}
		return len(x.Columns)
	}
	best := slices.MinFunc(unique, func(a, b adopted.Index) int { return rank(a) - rank(b) })
	p.m.ID = best.Columns
	for _, c := range best.Columns {
		p.taken[c] = true
	}
	p.why("id", "index %s is unique and identifies a row", best.Name)
}

// name writes a column's name, in quotes if it needs them.
func (p *proposer) name(c *adopted.Column) string {
	if plainName.MatchString(c.Name) && !strings.Contains(keywords+p.database.reserved, " "+c.Name+" ") {
		return c.Name
	}
	return p.dialect.Quoted(c.Name)
}

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// keywords are names that SQL takes for a column only in quotes.
const keywords = " order group user end check default table select from where limit offset desc asc case when then else and or not null in all any column primary references "

func (p *proposer) unfinished() {
	if p.finished != nil && len(p.states.done) == 0 {
		p.guessDone()
	}
	s := p.states
	byTime := !p.byStatus() && p.finished != nil && (p.data.filled[p.finished.Name] > 0 || len(s.done) == 0)
	if len(s.open()) > 0 && !byTime {
		p.m.Unfinished = p.equals(p.status, s.open())
		p.why("unfinished", "by their names or their order, these values of %s mean that a row has not ended: %s", p.status.Name, list(s.open()))
		return
	}
	for _, row := range []struct {
		column *adopted.Column
		cond   func(*adopted.Column) string
		report func(field, text string, args ...any)
		text   string
	}{
		{p.finished, p.isNull, p.why, "%s is a time, may be null, and by its name says when a row ended"},
		{p.success, p.isNull, p.why, "%s says how a row ended, and is null until then"},
		{p.processed, p.isUnset, p.why, "%s is a flag, and by its name says whether a row has ended"},
		{p.failed, p.isNull, p.unsure, "%s by its name says that a row has failed for good. No column shows which rows are done: that may mean that these are deleted"},
		{p.forWork(), always, p.unsure, "no column shows which rows have ended: there is no time such as finished_at, no status, no flag. Since %s tells that rows are there to be worked on, those that are done may be deleted"},
	} {
		if row.column != nil {
			p.m.Unfinished = row.cond(row.column)
			row.report("unfinished", row.text, row.column.Name)
			return
		}
	}
	p.unsure("unfinished", "no column shows which rows have ended: there is no time such as finished_at, no status, no flag")
}

func (p *proposer) isNull(c *adopted.Column) string  { return p.name(c) + " is null" }
func (p *proposer) isUnset(c *adopted.Column) string { return p.flag(c, false) }
func always(*adopted.Column) string                  { return "true" }

// forWork is a column that only a queue has, since it shows claims, attempts or the time of a start; nil: there is none.
// A token, an owner or an expiry is not enough: other tables have these, too.
func (p *proposer) forWork() *adopted.Column { return cmp.Or(p.started, p.attempts, p.notBefore) }

// endTimeDecides reports whether a row is unfinished if it has no time of its end, whatever its status.
func (p *proposer) endTimeDecides() bool {
	return p.finished != nil && p.m.Unfinished == p.isNull(p.finished)
}

// keepsEnded reports whether a column shows which rows are done. If none does, rows that are done can only be deleted.
func (p *proposer) keepsEnded() bool {
	return p.finished != nil || p.success != nil || p.processed != nil || len(p.states.all()) > 0
}

func (p *proposer) available() {
	claimed, also := cmp.Or(p.token, p.started, p.lockedBy), p.alsoSet()
	switch s := p.states; {
	case s.showClaims():
		p.m.Available = p.equals(p.status, s.fresh)
		p.why("available", "by its values, %s shows which rows wait", p.status.Name)
	case claimed != nil:
		p.m.Available = p.isNull(claimed)
		p.why("available", "%s is null until a row is claimed", claimed.Name)
	case p.processing != nil:
		p.m.Available = p.flag(p.processing, false)
		p.why("available", "%s is a flag, and by its name says whether a row is claimed", p.processing.Name)
	case also != nil:
		p.m.Available = p.isNull(also)
		p.unsure("available", "%s is set in %d of %d rows that were read: if that does not mean that another program has taken or put away such a row, leave it out; if it does, and a claim should set it, name it as claim.started_at", also.Name, p.data.filled[also.Name], p.data.rows)
	default:
		p.why("available", "no column shows whether a row is claimed; the side table does")
	}
	if c := p.claimID; c != nil && p.m.Available != "" {
		p.m.Available += " and " + p.name(c) + " = 0"
		p.unsure("available", "%s by its name and default is 0 until some program has claimed a row", c.Name)
	}
	if claimed != nil && p.data.rows > 0 && p.data.filled[claimed.Name] == p.data.rows && p.m.Available == p.isNull(claimed) {
		p.unsure("available", "%s is null in none of the rows that were read, so nothing would be claimed; perhaps rows whose %[1]s is long ago are to be taken", claimed.Name)
	}
	if p.lockedBy != nil && p.m.Available != "" && p.started != nil && p.data.differ(p.lockedBy, p.started) {
		p.unsure("available", "some rows have %s but no %s, or the other way round", p.lockedBy.Name, p.started.Name)
	}
}

// alsoSet is a column of times that has no role, and is set in some rows but not in all; nil: there is none.
func (p *proposer) alsoSet() *adopted.Column {
	i := slices.IndexFunc(p.table.Columns, func(c adopted.Column) bool {
		n := p.data.filled[c.Name]
		return c.Null && !p.taken[c.Name] && !isNamed(c, "updated modified changed edited") && p.isTime(c) && n > 0 && n < p.data.rows
	})
	if i < 0 {
		return nil
	}
	return &p.table.Columns[i]
}

// equals writes a condition that a column has one of the values.
func (p *proposer) equals(c *adopted.Column, values []string) string {
	all := adopted.Joined(values, ", ", func(_ int, v string) string {
		if c.Kind != adopted.Integer {
			v, _ = p.dialect.Literal(v) // no error: every string has a literal
		}
		return v
	})
	if len(values) == 1 {
		return p.name(c) + " = " + all
	}
	return p.name(c) + " in (" + all + ")"
}

// flag writes a condition that a flag is set, or is not.
func (p *proposer) flag(c *adopted.Column, set bool) string {
	switch {
	case c.Kind == adopted.Boolean && set:
		return p.name(c)
	case c.Kind == adopted.Boolean && !c.Null && p.dialect.Lenient && p.table.Led(c.Name):
		return p.name(c) + " = 0" // this form lets the planner use an index
	case c.Kind == adopted.Boolean && !c.Null:
		return "not " + p.name(c)
	case c.Kind == adopted.Boolean:
		return p.name(c) + " is not true"
	case set:
		return p.name(c) + " <> 0"
	}
	return "coalesce(" + p.name(c) + ", 0) = 0"
}

// YAML writes a mapping as the text of a file, with the reasons as comments. mapping.Read reads it.
func YAML(m mapping.Mapping, reasons []Reason) (string, error) {
	var n yaml.Node
	if err := n.Encode(m); err != nil {
		return "", err
	}
	quoteUnsafe(&n)
	var last []string // comments on fields that the file does not have
	for _, r := range reasons {
		mark := "why"
		if r.Unsure {
			mark = "NOT SURE"
		}
		comment := fmt.Sprintf("# %s: %s: %s", mark, r.Field, strings.Join(strings.Fields(r.Text), " "))
		field, _, _ := strings.Cut(r.Field, ".")
		if i := slices.IndexFunc(n.Content, func(key *yaml.Node) bool { return key.Value == field }); i >= 0 {
			n.Content[i].HeadComment = strings.TrimPrefix(n.Content[i].HeadComment+"\n"+comment, "\n")
		} else {
			last = append(last, comment+"\n")
		}
	}
	raw, err := yaml.Marshal(&n)
	return fmt.Sprintf("# How dibs works on the table %s: proposed by its names, types, indexes and data.\n# Read it, correct it, then: dibs adopt check FILE\n%s%s",
		strings.Join(strings.Fields(m.Table), " "), raw, strings.Join(last, "")), err
}

// quoteUnsafe sets double quotes around values that must not reach a terminal as they are:
// within these quotes YAML writes such characters as escapes.
func quoteUnsafe(n *yaml.Node) {
	if strings.ContainsFunc(n.Value, chars.Unsafe) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, inner := range n.Content {
		quoteUnsafe(inner)
	}
}
