package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// advice holds the SQL that lets claims and sweeps read only the rows that they take.
type advice struct {
	claimIndex   string // statement that creates an index for claims
	runningIndex string // statement that creates an index for sweeps and groups; empty: none is needed
	pageRoom     string // statement that lets claims update rows in place; empty: they cannot
	endColumn    string // column by which sweeps find claims that have ended
}

// advise makes a partial index of unfinished rows for claims.
// The columns that "available" compares with one value come first, then those of the claim order.
// Running rows stay in the index: there are few, and so a claim does not have to update it.
func (p *subject) advise() advice {
	a := advice{}
	var lead []adopted.Column
	where := map[string]string{}
	var predicate []*adopted.Condition
	for _, c := range p.Conds {
		where[c.Field] = c.Unqualified()
		if c.Field == "available" {
			lead = p.equalColumns(c)
		}
		if c.Field == "where" || c.Field == "unfinished" {
			predicate = append(predicate, c)
		}
	}
	if p.database.wholeIndexes {
		lead = p.fixedColumns()
	}
	var keys []string
	for _, c := range lead {
		keys = append(keys, adopted.Quote(c.Name))
	}
	for _, o := range p.Ordering {
		keys = append(keys, o.By(adopted.Quote(o.Name)))
	}
	open := conjunction(where["where"], where["unfinished"])
	if p.database.wholeIndexes || slices.ContainsFunc(predicate, func(c *adopted.Condition) bool { return c.Has("select") }) {
		open = ""
	}
	a.claimIndex = p.index("open", keys, open)
	if end := p.ending(); end != nil && !p.SideTable {
		a.endColumn = end.Name
	}
	if busy := p.runningColumns(); len(busy) > 0 && open != "" {
		running := cmp.Or(where["running"], "not ("+where["available"]+")")
		a.runningIndex = p.index("running", busy, conjunction(open, running))
	}
	if p.database.pageRoom != "" && p.inPlace(lead, predicate) {
		a.pageRoom = fmt.Sprintf(p.database.pageRoom, p.Table)
	}
	return a
}

func conjunction(conds ...string) string {
	conds = slices.DeleteFunc(conds, func(c string) bool { return c == "" })
	if len(conds) == 1 {
		return conds[0]
	}
	for i, c := range conds {
		conds[i] = "(" + c + ")"
	}
	return strings.Join(conds, " and ")
}

// runningColumns lists the columns by which sweeps and groups search the running rows.
func (p *subject) runningColumns() (all []string) {
	if p.SideTable {
		return nil // the side table shows which rows run
	}
	if end := p.ending(); end != nil {
		all = append(all, adopted.Quote(end.Name))
	}
	if p.Mapping.Group.Column != "" {
		all = append(all, adopted.Quote(p.GroupColumn.Name))
	}
	return all
}

func (p *subject) index(what string, keys []string, where string) string {
	const longest = 63 // PostgreSQL cuts off longer names, and two might be alike
	table := strings.ToValidUTF8(p.On.Name[:min(len(p.On.Name), longest-len("dibs__"+what))], "")
	name := adopted.Quote("dibs_" + table + "_" + what)
	on := p.Table
	if p.database.ownIndexes {
		name, on = adopted.Quote(p.On.Schema)+"."+name, adopted.Quote(p.On.Name)
	}
	name, on = p.Dialect.Qualified(name), p.Dialect.Qualified(on)
	for i := range keys {
		keys[i] = p.Dialect.Qualified(keys[i])
	}
	text := "create index " + name + " on " + on + " (" + strings.Join(keys, ", ") + ")"
	if where != "" {
		text += " where " + where
	}
	return text
}

// equalColumns lists the columns that a simple condition compares with one value each. It
// leaves out the columns of the claim order.
func (p *subject) equalColumns(c *adopted.Condition) []adopted.Column {
	var all []adopted.Column
	for _, x := range p.equalities(c) {
		ordered := slices.ContainsFunc(p.Ordering, func(o adopted.OrderColumn) bool { return o.Name == x.Name })
		if !ordered && !slices.Contains(all, x.Column) {
			all = append(all, x.Column)
		}
	}
	return all
}

// fixedColumns lists the columns that have one value in all rows that can be claimed, or null, but for those of the claim order.
func (p *subject) fixedColumns() (all []adopted.Column) {
	for _, c := range p.Conds {
		if c.Field == "running" {
			continue
		}
		for _, col := range append(p.equalColumns(c), p.Nulls(c)...) {
			if !slices.ContainsFunc(p.Ordering, func(o adopted.OrderColumn) bool { return o.Name == col.Name }) && !slices.Contains(all, col) {
				all = append(all, col)
			}
		}
	}
	return all
}

// inPlace reports whether a claim writes no indexed column: then PostgreSQL updates the row
// without touching any index.
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

// partialIndexOn finds a partial index whose first column has this name.
func (p *subject) partialIndexOn(name string) (adopted.Index, bool) {
	for _, x := range p.On.Indexes {
		if name != "" && x.Where != "" && len(x.Columns) > 0 && x.Columns[0] == name {
			return x, true
		}
	}
	return adopted.Index{}, false
}
