package adopted

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Plan is a mapping that fits its table, with the pieces of SQL for its statements. In all of
// them the alias of the table is t.
type Plan struct {
	mapping.Mapping
	Dialect Dialect
	On      *Table
	Conds   []*Condition // conditions of the mapping
	Do      *Statements  // statements that a store runs; nil until the mapping has been verified

	// These are conditions of the mapping as statements contain them.
	Where, Unfinished, Available, Running string

	Table  string // quoted name of the table
	Key    string // the row's id: a JSON array, as text
	Order  string // order in which rows are claimed
	Open   string // condition: the row is in this queue and has not ended
	ready  string // condition: the row is open, no worker has claimed it, and its time has come
	AtWork string // condition: the row is open, and a worker has claimed it
	worked string // condition: a worker has claimed the row, in whatever queue

	Keys        []Column
	Ordering    []OrderColumn
	GroupColumn Column
	KindColumn  Column
	Before      *Timed // Rows.NotBefore
	Started     *Timed // Claim.StartedAt
	Timeout     *Timed // Claim.Timeout
	Fence       []Column

	Sideless bool // the side table does not exist yet
}

// OrderColumn is a column of the claim order.
type OrderColumn struct {
	Column
	Desc bool
}

// Timed is a column that holds times.
type Timed struct {
	Column
	Clock
}

// LateError is the error of an attempt whose lease has ended, the same as in all stores.
const LateError = "lease expired"

// compile checks the mapping against the catalogue and makes the pieces of SQL. It does not ask
// the database, so a condition may still be invalid SQL.
func compile(m mapping.Mapping, d Dialect, on *Table) (*Plan, error) {
	p := &Plan{Mapping: WithDefaults(m), Dialect: d, On: on}
	p.setTexts()
	p.Table = on.Quoted()
	steps := []func() error{p.setLimits, p.setKey, p.setColumns, p.setOrder, p.setTimes, p.setFence, p.checkSets}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p.setConditions()
	var err error
	p.Conds, err = p.conditions()
	return p, err
}

// WithDefaults fills in what the mapping leaves out.
func WithDefaults(m mapping.Mapping) mapping.Mapping {
	if m.Queue == "" {
		_, m.Queue = splitName(m.Table)
	}
	def := dibs.DefaultSettings("")
	if m.Lease == 0 {
		m.Lease = def.Lease
	}
	if m.Backoff == (dibs.Backoff{}) {
		m.Backoff = def.Backoff
	}
	if m.Backoff.Factor == 0 { // 0 is never meant
		m.Backoff.Factor = def.Backoff.Factor
	}
	if m.Backoff.Max == 0 {
		m.Backoff.Max = max(def.Backoff.Max, m.Backoff.Base)
	}
	if m.Group.Column != "" && m.Group.Limit == 0 {
		m.Group.Limit = 1
	}
	return m
}

// AllTimes lists the formats of times.
var AllTimes = []mapping.TimeFormat{mapping.TimesUTC, mapping.TimesLocal, mapping.TimesSeconds, mapping.TimesMillis, mapping.TimesMicros, mapping.TimesISO, mapping.TimesUnix, mapping.TimesUnixMS}

// Formats lists the formats of times for error messages.
func Formats() string {
	return Joined(AllTimes, ", ", func(_ int, f mapping.TimeFormat) string { return string(f) })
}

func (p *Plan) setLimits() error {
	if err := checks.Name("queue", p.Mapping.Queue); err != nil {
		return err
	}
	switch {
	case p.Lease < dibs.MinLease || p.Lease > dibs.MaxLease:
		return Invalid("lease", "must be %v to %v, got %v", dibs.MinLease, dibs.MaxLease, p.Lease)
	case p.MaxAttempts < 0:
		return Invalid("max_attempts", "must not be negative, got %d", p.MaxAttempts)
	case p.LimitsAttempts() && p.Claim.Attempts == "" && !p.SideTable:
		return Invalid("max_attempts", "needs a column that counts attempts: name claim.attempts, or set side_table")
	case p.LimitsAttempts() && p.Dead == nil && !p.SideTable:
		return Invalid("dead", "is missing: say what becomes of a row whose attempts are used up, or set side_table")
	case p.Times != "" && !slices.Contains(AllTimes, p.Times):
		return Invalid("times", "must be one of %s, got %.40q", Formats(), p.Times)
	case p.Concurrency < 0 || p.Concurrency > 1_000_000:
		return Invalid("concurrency", "must be 0 (no limit) to 1000000, got %d", p.Concurrency)
	case p.Concurrency > 0 && p.LockOnly():
		return Invalid("concurrency", "needs claims that can be counted: name a column that a claim writes, or set side_table")
	case p.Group.Limit < 0:
		return Invalid("group.limit", "must be at least 1, got %d", p.Group.Limit)
	case p.Group.Column != "" && p.LockOnly():
		return Invalid("group", "needs claims that can be counted: name a column that a claim writes, or set side_table")
	case p.Group.Limit > 0 && p.Group.Column == "":
		return Invalid("group.column", "is missing")
	case p.Unfinished == "":
		return Invalid("unfinished", "is missing: say which rows have not ended, such as \"finished_at is null\"")
	case !p.SideTable && p.Marked() && p.Available == "":
		return Invalid("available", "is missing: say which rows no worker has claimed; if no column shows this, set side_table")
	}
	b := p.Backoff
	if b.Base < 0 || b.Max < b.Base || b.Factor < 1 || b.Jitter < 0 || b.Jitter > 1 {
		return Invalid("backoff", "needs 0 <= base <= max, factor >= 1 and 0 <= jitter <= 1")
	}
	return nil
}

// named finds a column that the mapping names.
func (p *Plan) named(field, name string) (Column, error) {
	c, ok := p.On.Column(name)
	if !ok {
		return c, Invalid(field, "table %s has no column %q; it has %s", p.Mapping.Table, name, p.On.names())
	}
	return c, nil
}

func (p *Plan) setKey() error {
	if len(p.ID) == 0 {
		return Invalid("id", "is missing: name the columns that identify a row")
	}
	var exprs []string
	for _, name := range p.ID {
		c, err := p.named("id", name)
		if err != nil {
			return err
		}
		switch c.Kind {
		case Blob, Number, Boolean, Document, Nested:
			return Invalid("id", "%s is of type %s, which does not identify a row exactly", name, c.Decl)
		}
		if c.Decl == "interval" {
			return Invalid("id", "%s is of type %s, which does not identify a row exactly", name, c.Decl)
		}
		p.Keys = append(p.Keys, c)
		exprs = append(exprs, p.Dialect.inKey(c.SQL(), c))
	}
	if !p.On.Keyed(p.ID) {
		return Invalid("id", "there is no unique index on %s; add one, or name other columns", strings.Join(p.ID, ", "))
	}
	for _, c := range p.Keys {
		if c.Null {
			return Invalid("id", "%s can be null, and a row without an id cannot be identified", c.Name)
		}
	}
	p.Key = p.Dialect.arrayOf(exprs)
	return nil
}

func (p *Plan) setColumns() (err error) {
	if p.Group.Column != "" {
		if p.GroupColumn, err = p.named("group.column", p.Group.Column); err != nil {
			return err
		}
		switch p.GroupColumn.Kind {
		case Number, Blob, Document, Nested:
			return Invalid("group.column", "%s is of type %s, whose values can be written in several ways", p.GroupColumn.Name, p.GroupColumn.Decl)
		}
	}
	if p.Kind != "" {
		if p.KindColumn, err = p.named("kind", p.Kind); err != nil {
			return err
		}
	}
	for _, name := range p.Payload.Columns {
		if _, err = p.named("payload.columns", name); err != nil {
			return err
		}
	}
	if p.MaxAttemptsColumn != "" {
		c, err := p.named("max_attempts_column", p.MaxAttemptsColumn)
		if err != nil {
			return err
		}
		if c.Kind != Integer && c.Kind != Number {
			return Invalid("max_attempts_column", "%s is of type %s; attempts need whole numbers", c.Name, c.Decl)
		}
	}
	return nil
}

func (p *Plan) setOrder() error {
	names := append([]string{}, p.Mapping.Order...)
	for _, k := range p.ID {
		names = append(names, k)
	}
	seen := map[string]bool{}
	var parts []string
	for i, name := range names {
		field := "order"
		bare, desc := strings.CutSuffix(name, " desc")
		bare = strings.TrimSuffix(bare, " asc")
		if i >= len(p.Mapping.Order) {
			bare, desc = name, false
		}
		c, err := p.named(field, strings.TrimSpace(bare))
		if err != nil {
			return err
		}
		if seen[c.Name] {
			continue
		}
		seen[c.Name] = true
		o := OrderColumn{c, desc}
		p.Ordering = append(p.Ordering, o)
		parts = append(parts, o.By(c.SQL()))
	}
	p.Order = strings.Join(parts, ", ")
	return nil
}

// By is a term of "order by" for an expression of the column's value.
func (o OrderColumn) By(expr string) string {
	if o.Desc {
		return expr + " desc"
	}
	return expr
}

func (p *Plan) setConditions() {
	and := func(conds ...string) string {
		var all []string
		for _, c := range conds {
			if c != "" {
				all = append(all, "("+c+")")
			}
		}
		return strings.Join(all, " and ")
	}
	p.Open = and(p.Where, p.Unfinished)
	timeCome := ""
	if p.Before != nil {
		col := p.Before.Column.SQL()
		timeCome = col + " <= " + p.Before.now
		if p.Before.Null {
			timeCome = col + " is null or " + timeCome
		}
	}
	p.ready = and(p.Where, p.Unfinished, p.Available, timeCome)
	for _, k := range p.Keys {
		if k.NullInKey { // every claim could choose a row without an id, but no statement could identify it
			p.ready += " and " + k.SQL() + " is not null"
		}
	}
	if p.LimitsAttempts() && !p.SideTable {
		p.ready += " and not " + p.spent()
	}
	running := p.Running
	if running == "" && p.Available != "" {
		running = "not (" + p.Available + ")" // the planner can match this with an index where "mark is not null"
	}
	if p.SideTable && !p.Marked() { // only the side table shows what runs
		running = ""
	}
	p.AtWork, p.worked = and(p.Where, p.Unfinished, running), and(p.Unfinished, running)
	if p.LockOnly() {
		p.AtWork = p.ready
		p.ready += " and " + piece{Plan: p}.NotAmong(p.Key, param("has"))
	}
	if p.SideTable {
		// PostgreSQL would turn "not exists" into a join that compares each row with each lease.
		p.ready += " and (exists (select 1 from " + p.Side() + " s where s.source = " + p.Source() + " and s.key = " + p.Key +
			" and (s.token is not null or s.dead = 1 or s.run_at > " + p.Micros() + "))) is not true"
	}
}

// Marked reports whether a claim writes anything into the row.
func (p *Plan) Marked() bool {
	c := p.Claim
	return c.Token != "" || c.LockedBy != "" || c.StartedAt != "" || c.Timeout != "" || c.Attempts != "" || len(c.Set) > 0
}

// LockOnly reports whether only a row lock can hold a claim, until its transaction ends.
func (p *Plan) LockOnly() bool { return !p.SideTable && !p.Marked() }

// Ends reports whether claims end by themselves after some time.
func (p *Plan) Ends() bool { return p.SideTable || p.Timeout != nil || p.Started != nil }

// Side names the side table, which is in the schema of the adopted table.
func (p *Plan) Side() string { return Quote(p.On.Schema) + "." + Quote("dibs_adopted") }

// SideName is the side table's name as people write it.
func (p *Plan) SideName() string {
	if p.Dialect.backticks {
		return backticked(p.Side())
	}
	return p.Side()
}

// SideIndex names the side table's index with its schema, for SQLite.
func (p *Plan) SideIndex() string {
	return Quote(p.On.Schema) + "." + Quote("dibs_adopted_lease")
}

// Source is the name of the adopted table in the side table, as SQL.
func (p *Plan) Source() string {
	s, _ := p.Dialect.Literal(p.On.Name) // no error: every string has a literal
	return s
}

// Name is the name of the queue, as SQL.
func (p *Plan) Name() string {
	s, _ := p.Dialect.Literal(p.Mapping.Queue) // no error: every string has a literal
	return s
}

// LimitsAttempts reports whether rows are dead after some number of attempts.
func (p *Plan) LimitsAttempts() bool { return p.MaxAttempts > 0 || p.MaxAttemptsColumn != "" }

// MostAttempts is SQL for the number of attempts after which a row is dead.
func (p *Plan) MostAttempts() string {
	most := fmt.Sprint(cmp.Or(p.MaxAttempts, math.MaxInt32))
	if c, ok := p.On.Column(p.MaxAttemptsColumn); ok {
		return "case when " + c.SQL() + " > 0 then " + c.SQL() + " else " + most + " end"
	}
	return most
}

// spent is a condition for rows whose attempts are used up.
func (p *Plan) spent() string { return p.attempts() + " >= " + p.MostAttempts() }

// Micros is SQL for the current time in microseconds since 1970.
func (p *Plan) Micros() string { return p.Dialect.now }

// attempts is SQL for the number of attempts at a row; empty: no column counts them.
func (p *Plan) attempts() string {
	if p.Claim.Attempts == "" {
		return ""
	}
	c, _ := p.On.Column(p.Claim.Attempts)
	return "coalesce(" + c.SQL() + ", 0)"
}
