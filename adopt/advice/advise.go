package advice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
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
	a := advice{}
	var lead []adopted.Column
	where := map[string]string{}
	var predicate []*adopted.Condition
	for _, c := range p.Conds {
		where[c.Field] = c.Unqualified()
		if c.Field == "available" {
			lead = p.compared(c)
		}
		if c.Field == "where" || c.Field == "unfinished" {
			predicate = append(predicate, c)
		}
	}
	var keys []string
	for _, c := range lead {
		keys = append(keys, adopted.Quote(c.Name))
	}
	for _, o := range p.Ordering {
		keys = append(keys, o.By(adopted.Quote(o.Name)))
	}
	open := both(where["where"], where["unfinished"])
	if slices.ContainsFunc(predicate, func(c *adopted.Condition) bool { return c.Has("select") }) {
		open = ""
	}
	a.claim = p.index("open", keys, open)
	if !p.SideTable && p.Ends() {
		for _, t := range []*adopted.Timed{p.Started, p.Timeout} {
			if t != nil {
				a.late = t.Name
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
	case p.Timeout != nil:
		all = append(all, adopted.Quote(p.Timeout.Name))
	case p.Started != nil:
		all = append(all, adopted.Quote(p.Started.Name))
	}
	if p.Mapping.Group.Column != "" {
		all = append(all, adopted.Quote(p.GroupColumn.Name))
	}
	return all
}

func (p *subject) index(what string, keys []string, where string) string {
	name := adopted.Quote("dibs_" + p.On.Name + "_" + what)
	on := p.Table
	if p.of.ownIndexes {
		name, on = adopted.Quote(p.On.Schema)+"."+name, adopted.Quote(p.On.Name)
	}
	text := "create index " + name + " on " + on + " (" + strings.Join(keys, ", ") + ")"
	if where != "" {
		text += " where " + where
	}
	return text
}

// compared are the columns that a condition compares with one value each, if it is
// plain enough to tell, and by which rows are not ordered.
func (p *subject) compared(c *adopted.Condition) []adopted.Column {
	var all []adopted.Column
	for _, x := range p.fixed(c) {
		ordered := slices.ContainsFunc(p.Ordering, func(o adopted.OrderColumn) bool { return o.Name == x.Name })
		if !ordered && !slices.Contains(all, x.Column) {
			all = append(all, x.Column)
		}
	}
	return all
}

// inPlace reports whether a claim writes no column of any index, so that PostgreSQL
// can leave all of them as they are.
func (p *subject) inPlace(lead []adopted.Column, predicate []*adopted.Condition) bool {
	claims := p.Claims()
	if len(claims) == 0 {
		return false
	}
	return !slices.ContainsFunc(claims, func(a adopted.Assignment) bool {
		c := a.To
		return slices.Contains(lead, c) ||
			slices.ContainsFunc(predicate, func(d *adopted.Condition) bool { return d.Names(c) }) ||
			slices.ContainsFunc(p.Ordering, func(o adopted.OrderColumn) bool { return o.Name == c.Name }) ||
			slices.ContainsFunc(p.On.Indexes, func(x adopted.Index) bool {
				return slices.Contains(x.Columns, c.Name) || len(x.Columns) == 0 || strings.Contains(x.Where, c.Name)
			})
	})
}

// leads names a partial index that a column leads.
func (p *subject) leads(name string) (adopted.Index, bool) {
	for _, x := range p.On.Indexes {
		if name != "" && x.Where != "" && len(x.Columns) > 0 && x.Columns[0] == name {
			return x, true
		}
	}
	return adopted.Index{}, false
}
