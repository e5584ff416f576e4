package adopt

import (
	"fmt"
	"slices"
	"strings"
)

// advice is what would let claims and sweeps read only the rows that they take.
type advice struct {
	claim   string // SQL of an index
	running string // the same, for sweeps and groups; empty: not needed
	room    string // SQL that lets claims change rows in place; empty: they cannot
	lead    []column
	late    string // the column by which sweeps find claims that are over
}

// advise makes an index for claims: what is unfinished, led by what "available"
// compares with one value, in the order of claims. Rows that are running stay in it,
// for there are few, so that a claim need not change the index.
func (p *plan) advise() advice {
	conds, _ := p.conditions() // Open has seen them
	a := advice{}
	where := map[string]string{}
	var predicate []*condition
	for _, c := range conds {
		where[c.field] = c.unqualified()
		if c.field == "available" {
			a.lead = p.compared(c)
		}
		if c.field == "where" || c.field == "unfinished" {
			predicate = append(predicate, c)
		}
	}
	var keys []string
	for _, c := range a.lead {
		keys = append(keys, p.d.quote(c.name))
	}
	for _, o := range p.order {
		keys = append(keys, o.by(p.d.quote(o.name)))
	}
	open := both(where["where"], where["unfinished"])
	if has(predicate, "select") {
		open = ""
	}
	a.claim = p.index("open", keys, open)
	if !p.SideTable && p.ends() {
		for _, t := range []*timed{p.started, p.timeout} {
			if t != nil {
				a.late = t.name
			}
		}
	}
	if busy := p.runningColumns(); len(busy) > 0 && open != "" {
		running := where["running"]
		if running == "" {
			running = "not (" + where["available"] + ")"
		}
		a.running = p.index("running", busy, both(open, running))
	}
	if p.d.name() == "postgres" && p.inPlace(a.lead, predicate) {
		a.room = "alter table " + p.Table + " set (fillfactor = 50)"
	}
	return a
}

func has(conds []*condition, name string) bool {
	return slices.ContainsFunc(conds, func(c *condition) bool { return c.has(name) })
}

func both(conds ...string) string {
	conds = slices.DeleteFunc(conds, func(c string) bool { return c == "" })
	if len(conds) == 1 {
		return conds[0]
	}
	for i, c := range conds {
		conds[i] = "(" + c + ")"
	}
	return strings.Join(conds, " and ")
}

// runningColumns are what sweeps and groups look for among the running rows.
func (p *plan) runningColumns() []string {
	var all []string
	switch {
	case p.SideTable:
		return nil // it tells
	case p.timeout != nil:
		all = append(all, p.d.quote(p.timeout.name))
	case p.started != nil:
		all = append(all, p.d.quote(p.started.name))
	}
	if p.Mapping.Group.Column != "" {
		all = append(all, p.d.quote(p.group.name))
	}
	return all
}

func (p *plan) index(what string, keys []string, where string) string {
	name := p.d.quote("dibs_" + p.on.name + "_" + what)
	on := p.Table
	if p.d.name() == "sqlite" { // where the index, not the table, has the schema's name
		name, on = p.d.quote(p.on.schema)+"."+name, p.d.quote(p.on.name)
	}
	text := "create index " + name + " on " + on + " (" + strings.Join(keys, ", ") + ")"
	if where != "" {
		text += " where " + where
	}
	return text
}

// compared are the columns that a condition compares with one value each, if it is
// plain enough to tell.
func (p *plan) compared(c *condition) []column {
	if c.has("or") || c.has("not") || c.has("case") || c.has("select") {
		return nil
	}
	var all []column
	for i, t := range c.tokens {
		if i+2 >= len(c.tokens) || c.tokens[i+1].text != "=" || c.tokens[i+1].kind != sign || !c.tokens[i+2].literal() {
			continue
		}
		col, ok := p.columnOf(t)
		ordered := slices.ContainsFunc(p.order, func(o ordering) bool { return o.name == col.name })
		if ok && !ordered && !slices.Contains(all, col) {
			all = append(all, col)
		}
	}
	return all
}

// literal reports whether the token is a string, a number or a boolean.
func (t token) literal() bool {
	return t.kind == quotedText || t.kind == word && (t.text[0] >= '0' && t.text[0] <= '9' || strings.EqualFold(t.text, "true") || strings.EqualFold(t.text, "false"))
}

// columnOf is the column that a token of a condition names.
func (p *plan) columnOf(t token) (column, bool) {
	if t.kind != word && t.kind != quotedName {
		return column{}, false
	}
	i := slices.IndexFunc(p.on.columns, func(c column) bool {
		return c.name == t.text || strings.EqualFold(c.name, t.text) && (t.kind == word || p.d.name() == "sqlite")
	})
	if i < 0 {
		return column{}, false
	}
	return p.on.columns[i], true
}

// inPlace reports whether a claim writes no column of any index, so that PostgreSQL
// can leave all of them as they are.
func (p *plan) inPlace(lead []column, predicate []*condition) bool {
	claims := p.claims()
	if len(claims) == 0 {
		return false
	}
	return !slices.ContainsFunc(claims, func(a assignment) bool {
		c := a.to
		return slices.Contains(lead, c) ||
			slices.ContainsFunc(predicate, func(d *condition) bool { return d.names(c) }) ||
			slices.ContainsFunc(p.order, func(o ordering) bool { return o.name == c.name }) ||
			slices.ContainsFunc(p.on.indexes, func(x index) bool {
				return slices.Contains(x.columns, c.name) || len(x.columns) == 0 || strings.Contains(x.where, c.name)
			})
	})
}

// unqualified is the condition without the table's name t, which an index does not know.
func (c *condition) unqualified() string {
	var b strings.Builder
	from := 0
	for i, t := range c.tokens {
		if t.kind == word && t.text == "t" && i+1 < len(c.tokens) && c.tokens[i+1].text == "." {
			b.WriteString(c.text[from:t.at])
			from = c.tokens[i+1].end
		}
	}
	return b.String() + c.text[from:]
}

// supported names an index that gives rows in the order of claims, if there is one:
// after columns that "available" compares with a value.
func (p *plan) supported(lead []column) (index, bool) {
	order := p.Mapping.Order
	want := make([]string, 0, len(p.order))
	for i, o := range p.order {
		if i < max(len(order), 1) {
			want = append(want, o.name)
		}
	}
	for _, x := range p.on.indexes {
		columns := x.columns
		for len(columns) > 0 && slices.ContainsFunc(lead, func(c column) bool { return c.name == columns[0] }) {
			columns = columns[1:]
		}
		if len(columns) >= len(want) && slices.Equal(columns[:len(want)], want) && (x.where != "" || len(x.columns) > len(columns)) {
			return x, true
		}
	}
	return index{}, false
}

// leads names a partial index that a column leads.
func (p *plan) leads(name string) (index, bool) {
	for _, x := range p.on.indexes {
		if name != "" && x.where != "" && len(x.columns) > 0 && x.columns[0] == name {
			return x, true
		}
	}
	return index{}, false
}

// SQL is all that the store runs, with the index that it advises. Parameters are listed at the head of each statement.
func (s *Store) SQL() string {
	x, _ := s.plan.supported(s.plan.advise().lead)
	return s.text(x.name)
}

// text is SQL where an index that is there already serves claims, or none does.
func (s *Store) text(served string) string {
	p, a := s.plan, s.plan.advise()
	var b strings.Builder
	say := func(text string, args ...any) { fmt.Fprintf(&b, text, args...) }
	say("-- What dibs runs on the table %s, by the mapping of queue %s.\n", p.Mapping.Table, p.Mapping.Queue)
	for _, line := range p.degree().Says {
		say("-- * %s\n", line)
	}
	if served != "" {
		say("\n-- Index %s gives rows in the order of claims.\n", served)
	} else {
		say("\n-- Advised: claims read the rows that they take, however many there are.\n%s;\n", a.claim)
	}
	switch x, ok := p.leads(a.late); {
	case ok:
		say("\n-- Index %s leads sweeps to the claims whose lease is over.\n", x.name)
	case a.running != "" && a.room != "":
		say("\n-- Not advised as it stands: each claim would have to write to it. Sweeps, which look for claims whose lease is\n-- over, read all that is unfinished; where that is often more than 100,000 rows, this lets them read the running ones.\n-- %s;\n", a.running)
	case a.running != "":
		say("\n-- Advised: sweeps, which look for claims whose lease is over, read only running rows.\n%s;\n", a.running)
	}
	if a.room != "" {
		say("\n-- Advised: a claim writes no column of an index, so with room in its page a row is changed in place.\n-- Pages that are there already get it when the table is rewritten (vacuum full).\n%s;\n", a.room)
	}
	if p.SideTable {
		say("\n-- Made by opening the mapping, if it is missing: the side table.\n")
		if texts, err := p.sideTable(); err == nil { // it has been rendered before
			say("%s;\n", strings.Join(texts, ";\n"))
		}
	}
	all := s.do.all()
	for _, name := range statementOrder {
		if st := all[name]; st != nil {
			say("\n-- == %s ==\n%s", name, st.text)
			say("\n-- %s\n", st.numbers(p.d.mark()))
		}
	}
	return b.String()
}

var statementOrder = []string{
	"alone", "running", "turn", "claim", "lease", "mark", "resume", "lease_again", "extend", "lease_extend",
	"lease_held", "completed", "dead", "cancelled", "put_back", "open", "lease_drop", "lease_settle", "holds",
	"late", "late_dead", "lease_late", "lease_forget", "lease_requeue", "fetch", "look", "list", "counts", "rates",
}

// numbers says which parameter has which number.
func (s *statement) numbers(mark string) string {
	if len(s.params) == 0 {
		return "no parameters"
	}
	parts := make([]string, len(s.params))
	for i, name := range s.params {
		parts[i] = fmt.Sprintf("%s%d: %s", mark, i+1, name)
	}
	return strings.Join(parts, ", ")
}
