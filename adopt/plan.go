package adopt

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/checks"
)

// plan is a mapping that has been found to fit its table, and the pieces of SQL
// that its statements are made of. In all of them the table is called t.
type plan struct {
	Mapping
	d  dialect
	on *table
	do *statements // what a store runs; nil until the mapping has been verified

	// These are the mapping's, as statements have them.
	Where, Unfinished, Available, Running string

	Table  string // quoted
	Key    string // the row's id: a JSON array, as text
	Order  string // of claims
	Open   string // the row is this queue's and has not ended
	ready  string // and nobody is at it, and its time has come
	busy   string // and somebody is at it
	worked string // the same of any queue of the table

	keys    []column
	order   []ordering
	group   column
	kind    column
	before  *timed // Rows.NotBefore
	started *timed // Claim.StartedAt
	timeout *timed // Claim.Timeout
	fence   []column

	sideless bool // the side table is not there yet
}

// ordering is one of the columns that rows are claimed by.
type ordering struct {
	column
	desc bool
}

// timed is a column that holds times.
type timed struct {
	column
	clock
}

const lateError = "lease expired" // as everywhere in dibs

// compile checks the mapping against the table and makes the pieces. It does not
// ask the database: whether the conditions can be parsed is not known yet.
func compile(m Mapping, d dialect, on *table) (*plan, error) {
	p := &plan{Mapping: withDefaults(m), d: d, on: on}
	p.asWritten()
	p.Table = quote(on.schema) + "." + quote(on.name)
	steps := []func() error{p.setLimits, p.setKey, p.setColumns, p.setOrder, p.setTimes, p.setFence, p.checkSets}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p.setConditions()
	return p, nil
}

func withDefaults(m Mapping) Mapping {
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
	if m.Backoff.Factor == 0 { // which cannot be meant
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

// closing is the sign that ends a quoted name, by the one that begins it.
var closing = map[byte]byte{'"': '"', '[': ']', '`': '`'}

// splitName takes SCHEMA.NAME apart. Each may be quoted as databases do: "name", [name] or `name`.
func splitName(table string) (schema, name string) {
	first, rest, ok := unquote(table)
	switch {
	case ok && rest == "":
		return "", first
	case ok && rest[0] == '.':
		if name, rest, ok := unquote(rest[1:]); ok && rest == "" {
			return first, name
		}
		return first, rest[1:]
	}
	if schema, rest, ok := strings.Cut(table, "."); ok {
		if name, left, ok := unquote(rest); ok && left == "" {
			return schema, name
		}
		return schema, rest
	}
	return "", table
}

// unquote takes a quoted name off the beginning.
func unquote(s string) (name, rest string, ok bool) {
	if s == "" || closing[s[0]] == 0 {
		return "", s, false
	}
	end := closing[s[0]]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != end:
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == end: // twice stands for once
			b.WriteByte(end)
			i++
		default:
			return b.String(), s[i+1:], true
		}
	}
	return "", s, false
}

// joinName is what splitName takes apart. A schema may be empty.
func joinName(schema, name string) string {
	if schema != "" {
		schema = asPart(schema) + "."
	}
	return schema + asPart(name)
}

// asPart quotes what would not be read as one name.
func asPart(name string) string {
	if name == "" || closing[name[0]] != 0 || strings.Contains(name, ".") {
		return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return name
}

func invalid(field, reason string, args ...any) error {
	return &dibs.InvalidError{Field: field, Reason: fmt.Sprintf(reason, args...)}
}

var allTimes = []TimeFormat{TimesUTC, TimesLocal, TimesSeconds, TimesMillis, TimesISO, TimesUnix, TimesUnixMS}

// formats lists the formats of times.
func formats() string {
	names := make([]string, len(allTimes))
	for i, f := range allTimes {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

func (p *plan) setLimits() error {
	if err := checks.Name("queue", p.Mapping.Queue); err != nil {
		return err
	}
	switch {
	case p.Lease < dibs.MinLease || p.Lease > dibs.MaxLease:
		return invalid("lease", "must be %v to %v, got %v", dibs.MinLease, dibs.MaxLease, p.Lease)
	case p.MaxAttempts < 0:
		return invalid("max_attempts", "must not be negative, got %d", p.MaxAttempts)
	case p.MaxAttempts > 0 && p.Claim.Attempts == "" && !p.SideTable:
		return invalid("max_attempts", "needs something that counts attempts: name claim.attempts, or set side_table")
	case p.MaxAttempts > 0 && p.Dead == nil && !p.SideTable:
		return invalid("dead", "is missing: what is to be done with a row whose attempts are used up? Or set side_table")
	case p.Times != "" && !slices.Contains(allTimes, p.Times):
		return invalid("times", "must be one of %s, got %.40q", formats(), p.Times)
	case p.Concurrency < 0 || p.Concurrency > 1_000_000:
		return invalid("concurrency", "must be 0 (no limit) to 1000000, got %d", p.Concurrency)
	case p.Concurrency > 0 && p.lockOnly():
		return invalid("concurrency", "needs claims that can be counted: name what a claim writes, or set side_table")
	case p.Group.Limit < 0:
		return invalid("group.limit", "must be at least 1, got %d", p.Group.Limit)
	case p.Group.Column != "" && p.lockOnly():
		return invalid("group", "needs claims that can be counted: name what a claim writes, or set side_table")
	case p.Group.Limit > 0 && p.Group.Column == "":
		return invalid("group.column", "is missing")
	case p.Unfinished == "":
		return invalid("unfinished", "is missing: which rows have not ended? Such as \"finished_at is null\"")
	case !p.SideTable && p.Marked() && p.Available == "":
		return invalid("available", "is missing: how does one see that nobody is at a row? If the table cannot tell, set side_table")
	}
	b := p.Backoff
	if b.Base < 0 || b.Max < b.Base || b.Factor < 1 || b.Jitter < 0 || b.Jitter > 1 {
		return invalid("backoff", "needs 0 <= base <= max, factor >= 1 and 0 <= jitter <= 1")
	}
	return nil
}

// named finds a column that the mapping names.
func (p *plan) named(field, name string) (column, error) {
	c, ok := p.on.column(name)
	if !ok {
		return c, invalid(field, "table %s has no column %q; it has %s", p.Mapping.Table, name, p.on.names())
	}
	return c, nil
}

func (p *plan) setKey() error {
	if len(p.ID) == 0 {
		return invalid("id", "is missing: which column or columns name a row?")
	}
	var exprs []string
	for _, name := range p.ID {
		c, err := p.named("id", name)
		if err != nil {
			return err
		}
		switch c.kind {
		case blob, number, boolean, document:
			return invalid("id", "%s is of type %s, by which a row cannot be named exactly", name, c.decl)
		}
		if c.decl == "interval" {
			return invalid("id", "%s is of type %s, by which a row cannot be named exactly", name, c.decl)
		}
		p.keys = append(p.keys, c)
		exprs = append(exprs, keyed(c.sql(), c))
	}
	if !p.on.keyed(p.ID) {
		return invalid("id", "no unique index says that %s names one row; add one, or name other columns", strings.Join(p.ID, ", "))
	}
	for _, c := range p.keys {
		if c.null {
			return invalid("id", "%s can be null, and a row without an id cannot be named", c.name)
		}
	}
	p.Key = p.d.arrayOf(exprs)
	return nil
}

func (p *plan) setColumns() (err error) {
	if p.Group.Column != "" {
		if p.group, err = p.named("group.column", p.Group.Column); err != nil {
			return err
		}
		if p.group.kind == number || p.group.kind == blob {
			return invalid("group.column", "%s is of type %s, of which equal values can be written in several ways", p.group.name, p.group.decl)
		}
	}
	if p.Kind != "" {
		if p.kind, err = p.named("kind", p.Kind); err != nil {
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

func (p *plan) setOrder() error {
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
		if seen[c.name] {
			continue
		}
		seen[c.name] = true
		o := ordering{c, desc}
		p.order = append(p.order, o)
		parts = append(parts, o.by(c.sql()))
	}
	p.Order = strings.Join(parts, ", ")
	return nil
}

func (o ordering) by(expr string) string {
	if o.desc {
		return expr + " desc"
	}
	return expr
}

func (p *plan) setConditions() {
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
	if p.before != nil {
		col := p.before.column.sql()
		due = col + " <= " + p.before.now
		if p.before.null {
			due = col + " is null or " + due
		}
	}
	p.ready = and(p.Where, p.Unfinished, p.Available, due)
	for _, k := range p.keys {
		if k.loose { // a row that has no id could be chosen by every claim, and named by none
			p.ready += " and " + k.sql() + " is not null"
		}
	}
	if p.MaxAttempts > 0 && !p.SideTable {
		p.ready += fmt.Sprintf(" and %s < %d", p.attempts(), p.MaxAttempts)
	}
	running := p.Running
	if running == "" && p.Available != "" {
		running = "not (" + p.Available + ")" // which a planner can match with an index on "mark is not null"
	}
	if p.SideTable && !p.Marked() { // the side table alone tells
		running = ""
	}
	p.busy, p.worked = and(p.Where, p.Unfinished, running), and(p.Unfinished, running)
	if p.lockOnly() {
		p.busy = p.ready
		p.ready += " and (" + p.d.asText(param("has")) + " is null or not " + p.d.isAmong(p.Key, param("has")) + ")"
	}
	if p.SideTable {
		// Not "not exists": PostgreSQL would make a join of it, which compares each row with each lease.
		p.ready += " and (exists (select 1 from " + p.Side() + " s where s.source = " + p.Source() + " and s.key = " + p.Key +
			" and (s.token is not null or s.dead = 1 or s.run_at > " + p.Micros() + "))) is not true"
	}
}

// Marked reports whether a claim writes anything into the row.
func (p *plan) Marked() bool {
	c := p.Claim
	return c.Token != "" || c.LockedBy != "" || c.StartedAt != "" || c.Timeout != "" || c.Attempts != "" || len(c.Set) > 0
}

// lockOnly reports that nothing but a row lock can hold a claim, in a transaction.
func (p *plan) lockOnly() bool { return !p.SideTable && !p.Marked() }

// ends reports whether claims end by themselves.
func (p *plan) ends() bool { return p.SideTable || p.timeout != nil || p.started != nil }

// Side is the side table, beside the adopted one.
func (p *plan) Side() string { return quote(p.on.schema) + "." + quote("dibs_adopted") }

// SideIndex is the index of the side table, where an index is named with its schema.
func (p *plan) SideIndex() string {
	return quote(p.on.schema) + "." + quote("dibs_adopted_lease")
}

// Source is what the side table calls the adopted one.
func (p *plan) Source() string {
	s, _ := p.d.literal(p.on.name) // a string is always fine
	return s
}

// Name is the queue's.
func (p *plan) Name() string {
	s, _ := p.d.literal(p.Mapping.Queue) // a string is always fine
	return s
}

// mostAttempts is how many attempts a row may have.
func (p *plan) mostAttempts() int64 {
	if p.MaxAttempts == 0 {
		return math.MaxInt32
	}
	return int64(p.MaxAttempts)
}

// Micros is the time now in microseconds since 1970.
func (p *plan) Micros() string { return p.d.now }

// attempts is the SQL of how many attempts a row has had, or empty.
func (p *plan) attempts() string {
	if p.Claim.Attempts == "" {
		return ""
	}
	c, _ := p.on.column(p.Claim.Attempts)
	return "coalesce(" + c.sql() + ", 0)"
}
