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
	late    string // the column by which sweeps find claims that are over
}

// advise makes an index for claims: what is unfinished, led by what "available"
// compares with one value, in the order of claims. Rows that are running stay in it,
// for there are few, so that a claim need not change the index.
func (p *subject) advise() advice {
	conds, _ := p.conditions() // Open has seen them
	a := advice{}
	var lead []column
	where := map[string]string{}
	var predicate []*condition
	for _, c := range conds {
		where[c.field] = c.unqualified()
		if c.field == "available" {
			lead = p.compared(c)
		}
		if c.field == "where" || c.field == "unfinished" {
			predicate = append(predicate, c)
		}
	}
	var keys []string
	for _, c := range lead {
		keys = append(keys, quote(c.name))
	}
	for _, o := range p.order {
		keys = append(keys, o.by(quote(o.name)))
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
	if p.of.room != "" && p.inPlace(lead, predicate) {
		a.room = fmt.Sprintf(p.of.room, p.Table)
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
func (p *subject) runningColumns() []string {
	var all []string
	switch {
	case p.SideTable:
		return nil // it tells
	case p.timeout != nil:
		all = append(all, quote(p.timeout.name))
	case p.started != nil:
		all = append(all, quote(p.started.name))
	}
	if p.Mapping.Group.Column != "" {
		all = append(all, quote(p.group.name))
	}
	return all
}

func (p *subject) index(what string, keys []string, where string) string {
	name := quote("dibs_" + p.on.name + "_" + what)
	on := p.Table
	if p.of.ownIndexes {
		name, on = quote(p.on.schema)+"."+name, quote(p.on.name)
	}
	text := "create index " + name + " on " + on + " (" + strings.Join(keys, ", ") + ")"
	if where != "" {
		text += " where " + where
	}
	return text
}

// compared are the columns that a condition compares with one value each, if it is
// plain enough to tell, and by which rows are not ordered.
func (p *subject) compared(c *condition) []column {
	var all []column
	for _, x := range p.fixed(c) {
		ordered := slices.ContainsFunc(p.order, func(o ordering) bool { return o.name == x.name })
		if !ordered && !slices.Contains(all, x.column) {
			all = append(all, x.column)
		}
	}
	return all
}

// inPlace reports whether a claim writes no column of any index, so that PostgreSQL
// can leave all of them as they are.
func (p *subject) inPlace(lead []column, predicate []*condition) bool {
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

// leads names a partial index that a column leads.
func (p *subject) leads(name string) (index, bool) {
	for _, x := range p.on.indexes {
		if name != "" && x.where != "" && len(x.columns) > 0 && x.columns[0] == name {
			return x, true
		}
	}
	return index{}, false
}
