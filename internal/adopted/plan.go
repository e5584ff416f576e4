package adopted

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Plan is a mapping that has been found to fit its table, and the pieces of SQL
// that its statements are made of. In all of them the table is called t.
type Plan struct {
	mapping.Mapping
	Dialect Dialect
	On      *Table
	Conds   []*Condition // those of the mapping
	Do      *Statements  // what a store runs; nil until the mapping has been verified

	// These are the mapping's, as statements have them.
	Where, Unfinished, Available, Running string

	Table  string // quoted
	Key    string // the row's id: a JSON array, as text
	Order  string // by which rows are claimed
	Open   string // the row is this queue's and has not ended
	ready  string // it is open, nobody is at it, and its time has come
	AtWork string // it is open, and somebody is at it
	worked string // somebody is at it, whatever the queue

	Keys        []Column
	Ordering    []OrderColumn
	GroupColumn Column
	KindColumn  Column
	Before      *Timed // Rows.NotBefore
	Started     *Timed // Claim.StartedAt
	Timeout     *Timed // Claim.Timeout
	Fence       []Column

	Sideless bool // the side table is not there yet
}

// OrderColumn is one of the columns that rows are claimed by.
type OrderColumn struct {
	Column
	Desc bool
}

// Timed is a column that holds times.
type Timed struct {
	Column
	Clock
}

// LateError is why an attempt failed whose lease ended, as everywhere in dibs.
const LateError = "lease expired"

// compile checks the mapping against the table and makes the pieces. It does not
// ask the database: whether the conditions can be parsed is not known yet.
func compile(m mapping.Mapping, d Dialect, on *Table) (*Plan, error) {
	p := &Plan{Mapping: WithDefaults(m), Dialect: d, On: on}
	p.asWritten()
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
	if m.Backoff.Factor == 0 { // nobody can mean that
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

// AllTimes are the formats of times.
var AllTimes = []mapping.TimeFormat{mapping.TimesUTC, mapping.TimesLocal, mapping.TimesSeconds, mapping.TimesMillis, mapping.TimesISO, mapping.TimesUnix, mapping.TimesUnixMS}

// Formats lists the formats of times.
func Formats() string {
	return joined(AllTimes, ", ", func(_ int, f mapping.TimeFormat) string { return string(f) })
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
	case p.MaxAttempts > 0 && p.Claim.Attempts == "" && !p.SideTable:
		return Invalid("max_attempts", "needs something that counts attempts: name claim.attempts, or set side_table")
	case p.MaxAttempts > 0 && p.Dead == nil && !p.SideTable:
		return Invalid("dead", "is missing: what is to be done with a row whose attempts are used up? Or set side_table")
	case p.Times != "" && !slices.Contains(AllTimes, p.Times):
		return Invalid("times", "must be one of %s, got %.40q", Formats(), p.Times)
	case p.Concurrency < 0 || p.Concurrency > 1_000_000:
		return Invalid("concurrency", "must be 0 (no limit) to 1000000, got %d", p.Concurrency)
	case p.Concurrency > 0 && p.LockOnly():
		return Invalid("concurrency", "needs claims that can be counted: name what a claim writes, or set side_table")
	case p.Group.Limit < 0:
		return Invalid("group.limit", "must be at least 1, got %d", p.Group.Limit)
	case p.Group.Column != "" && p.LockOnly():
		return Invalid("group", "needs claims that can be counted: name what a claim writes, or set side_table")
	case p.Group.Limit > 0 && p.Group.Column == "":
		return Invalid("group.column", "is missing")
	case p.Unfinished == "":
		return Invalid("unfinished", "is missing: which rows have not ended? Such as \"finished_at is null\"")
	case !p.SideTable && p.Marked() && p.Available == "":
		return Invalid("available", "is missing: how does one see that nobody is at a row? If the table cannot tell, set side_table")
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
		return Invalid("id", "is missing: which column or columns name a row?")
	}
	var exprs []string
	for _, name := range p.ID {
		c, err := p.named("id", name)
		if err != nil {
			return err
		}
		switch c.Kind {
		case Blob, Number, Boolean, Document:
			return Invalid("id", "%s is of type %s, by which a row cannot be named exactly", name, c.Decl)
		}
		if c.Decl == "interval" {
			return Invalid("id", "%s is of type %s, by which a row cannot be named exactly", name, c.Decl)
		}
		p.Keys = append(p.Keys, c)
		exprs = append(exprs, keyed(c.SQL(), c))
	}
	if !p.On.Keyed(p.ID) {
		return Invalid("id", "no unique index says that %s names one row; add one, or name other columns", strings.Join(p.ID, ", "))
	}
	for _, c := range p.Keys {
		if c.Null {
			return Invalid("id", "%s can be null, and a row without an id cannot be named", c.Name)
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
		if p.GroupColumn.Kind == Number || p.GroupColumn.Kind == Blob {
			return Invalid("group.column", "%s is of type %s, of which equal values can be written in several ways", p.GroupColumn.Name, p.GroupColumn.Decl)
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

// By sorts by a value of the column.
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
	due := ""
	if p.Before != nil {
		col := p.Before.Column.SQL()
		due = col + " <= " + p.Before.now
		if p.Before.Null {
			due = col + " is null or " + due
		}
	}
	p.ready = and(p.Where, p.Unfinished, p.Available, due)
	for _, k := range p.Keys {
		if k.Loose { // a row that has no id could be chosen by every claim, and named by none
			p.ready += " and " + k.SQL() + " is not null"
		}
	}
	if p.MaxAttempts > 0 && !p.SideTable {
		p.ready += fmt.Sprintf(" and %s < %d", p.attempts(), p.MaxAttempts)
	}
	running := p.Running
	if running == "" && p.Available != "" {
		running = "not (" + p.Available + ")" // a planner can match this with an index on "mark is not null"
	}
	if p.SideTable && !p.Marked() { // the side table alone tells
		running = ""
	}
	p.AtWork, p.worked = and(p.Where, p.Unfinished, running), and(p.Unfinished, running)
	if p.LockOnly() {
		p.AtWork = p.ready
		p.ready += " and (" + p.Dialect.AsText(param("has")) + " is null or not " + p.Dialect.isAmong(p.Key, param("has")) + ")"
	}
	if p.SideTable {
		// Not "not exists": PostgreSQL would make a join of it, which compares each row with each lease.
		p.ready += " and (exists (select 1 from " + p.Side() + " s where s.source = " + p.Source() + " and s.key = " + p.Key +
			" and (s.token is not null or s.dead = 1 or s.run_at > " + p.Micros() + "))) is not true"
	}
}

// Marked reports whether a claim writes anything into the row.
func (p *Plan) Marked() bool {
	c := p.Claim
	return c.Token != "" || c.LockedBy != "" || c.StartedAt != "" || c.Timeout != "" || c.Attempts != "" || len(c.Set) > 0
}

// LockOnly reports that nothing but a row lock can hold a claim, in a transaction.
func (p *Plan) LockOnly() bool { return !p.SideTable && !p.Marked() }

// Ends reports whether claims end by themselves.
func (p *Plan) Ends() bool { return p.SideTable || p.Timeout != nil || p.Started != nil }

// Side is the side table, beside the adopted one.
func (p *Plan) Side() string { return Quote(p.On.Schema) + "." + Quote("dibs_adopted") }

// SideIndex is the index of the side table, where an index is named with its schema.
func (p *Plan) SideIndex() string {
	return Quote(p.On.Schema) + "." + Quote("dibs_adopted_lease")
}

// Source is what the side table calls the adopted one.
func (p *Plan) Source() string {
	s, _ := p.Dialect.Literal(p.On.Name) // a string is always fine
	return s
}

// Name is the queue's.
func (p *Plan) Name() string {
	s, _ := p.Dialect.Literal(p.Mapping.Queue) // a string is always fine
	return s
}

// MostAttempts is how many attempts a row may have.
func (p *Plan) MostAttempts() int64 {
	if p.MaxAttempts == 0 {
		return math.MaxInt32
	}
	return int64(p.MaxAttempts)
}

// Micros is the time now in microseconds since 1970.
func (p *Plan) Micros() string { return p.Dialect.now }

// attempts is the SQL of how many attempts a row has had, or empty.
func (p *Plan) attempts() string {
	if p.Claim.Attempts == "" {
		return ""
	}
	c, _ := p.On.Column(p.Claim.Attempts)
	return "coalesce(" + c.SQL() + ", 0)"
}
