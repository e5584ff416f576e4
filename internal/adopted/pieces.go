package adopted

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// What follows fills in the files of sql/.

// joined writes each of several things, with by in between.
func joined[T any](all []T, by string, write func(i int, v T) string) string {
	parts := make([]string, len(all))
	for i, v := range all {
		parts[i] = write(i, v)
	}
	return strings.Join(parts, by)
}

// numberedAs are so many names of columns of another part of the statement.
func numberedAs[T any](all []T, prefix string) string {
	return joined(all, ", ", func(i int, _ T) string { return fmt.Sprint(prefix, i) })
}

// At names a row within a statement, and AtIn finds it again: by where it lies if
// that is known, else by its id.
func (p piece) At() string {
	if p.byPlace() {
		return "t.ctid as dibs_at"
	}
	return joined(p.Keys, ", ", func(i int, k Column) string { return fmt.Sprintf("%s as dibs_a%d", k.SQL(), i) })
}

func (p piece) byPlace() bool { return p.On.Whole }

// Only leaves out children that the table got since: their rows may lie at the same places as its own.
func (p piece) Only() string {
	if p.byPlace() {
		return "only "
	}
	return ""
}

// AtOf is At of a row of another part of the statement.
func (p piece) AtOf(alias string) string {
	if p.byPlace() {
		return alias + ".dibs_at"
	}
	return numberedAs(p.Keys, alias+".dibs_a")
}

// AtIn is true for rows that a part of the statement names.
func (p piece) AtIn(part string) string {
	if p.byPlace() {
		return "t.ctid = any (array(select dibs_at from " + part + "))"
	}
	if slices.ContainsFunc(p.Keys, func(k Column) bool { return k.equals != "" }) { // "in" cannot name them
		return "exists (select from " + part + " a where " + p.AtIs("a") + ")"
	}
	own := joined(p.Keys, ", ", func(_ int, k Column) string { return k.SQL() })
	return "(" + own + ") in (select " + numberedAs(p.Keys, "dibs_a") + " from " + part + ")"
}

// AtIs is true for the row that a row of another part of the statement names.
func (p piece) AtIs(alias string) string {
	if p.byPlace() {
		return "t.ctid = " + alias + ".dibs_at"
	}
	return p.keysAre(alias + ".dibs_a")
}

// is compares a column with a value of its type.
func (p *Plan) is(c Column, value string) string {
	return c.SQL() + " " + cmp.Or(c.equals, "=") + " " + value
}

// keysAre is true for the row whose id is in columns of that name with a number.
func (p piece) keysAre(prefix string) string {
	return joined(p.Keys, " and ", func(i int, k Column) string { return p.is(k, fmt.Sprint(prefix, i)) })
}

// OrderAs hands the order's columns on, OrderOf again, and OrderBy sorts by them.
func (p piece) OrderAs() string {
	return joined(p.Ordering, ", ", func(i int, o OrderColumn) string { return fmt.Sprintf("%s as dibs_o%d", o.Column.SQL(), i) })
}

// OrderOf names what OrderAs handed on.
func (p piece) OrderOf(alias string) string { return numberedAs(p.Ordering, alias+".dibs_o") }

// OrderBy is the order of what OrderAs handed on.
func (p piece) OrderBy(alias string) string {
	return joined(p.Ordering, ", ", func(i int, o OrderColumn) string { return o.By(fmt.Sprintf("%s.dibs_o%d", alias, i)) })
}

// Batch is what the parameter batch holds, as rows v.
func (p piece) Batch() string { return fmt.Sprintf(p.Dialect.batch, param("batch")) }

// Member is a text of a row of Batch.
func (p piece) Member(name string) string { return fmt.Sprintf(p.Dialect.member, name) }

// Part is JSON of a row of Batch.
func (p piece) Part(name string) string { return fmt.Sprintf(p.Dialect.part, name) }

// KeyItems takes a key, a JSON array, apart.
func (p piece) KeyItems(doc string) string {
	return joined(p.Keys, ", ", func(i int, k Column) string {
		return fmt.Sprintf("%s as dibs_k%d", p.Dialect.item("("+doc+")", i, k), i)
	})
}

// KeyOf hands on what KeyItems made.
func (p piece) KeyOf(alias string) string { return numberedAs(p.Keys, alias+".dibs_k") }

// KeyIs is true for the row with that key.
func (p piece) KeyIs(alias string) string { return p.keysAre(alias + ".dibs_k") }

// KeyOfSide is true for the row that a row of the side table is about; doc is its key, as a JSON array.
func (p piece) KeyOfSide(doc string) string {
	return joined(p.Keys, " and ", func(i int, k Column) string { return p.is(k, p.Dialect.item(doc, i, k)) })
}

// Group is the row's group as text, or empty.
func (p piece) Group() string {
	if p.Mapping.Group.Column == "" {
		return ""
	}
	return p.Dialect.AsText(p.GroupColumn.SQL())
}

// Limit is how many of a group may run at once.
func (p piece) Limit() int { return p.Mapping.Group.Limit }

// Busy is where the groups of running rows are found.
func (p piece) Busy() string {
	if p.SideTable && !p.Marked() {
		return p.Side() + " s where s.source = " + p.Source() + " and s.queue = " + p.Name() + " and s.token is not null and s.grp is not null"
	}
	return p.Table + " t where " + p.AtWork + " and " + p.GroupColumn.SQL() + " is not null"
}

// BusyGroup is the group of a row of Busy.
func (p piece) BusyGroup() string {
	if p.SideTable && !p.Marked() {
		return "s.grp"
	}
	return p.Group()
}

// Turn tells the locks of turn.sql from those of other tables.
func (p piece) Turn() string { return fmt.Sprint(p.On.ID) }

// Alone tells the lock of alone.sql from those of other tables.
func (p piece) Alone() string { return fmt.Sprint(int32(uint32(p.On.ID))) }

// BusyRow is true for running rows, of which the side table does not know.
func (p piece) BusyRow() string {
	if p.SideTable {
		return p.AtWork + " and (" + p.taken() + ") is not true"
	}
	return p.AtWork
}

// Held is true while the row is as its claim left it and has not ended.
func (p piece) Held(alias string) string { return p.held(alias, p.live()) }

// HeldOrOwn is Held, or else the same transaction has claimed the row: while that is open, the
// lease does not end.
func (p piece) HeldOrOwn(alias string) string {
	live := p.live()
	if live != "" {
		live = "(" + live + " or " + alias + ".dibs_own = 1)"
	}
	return p.held(alias, live)
}

func (p piece) held(alias, live string) string {
	if p.SideTable {
		return p.AtWork
	}
	conds := []string{p.AtWork}
	if live != "" {
		conds = append(conds, live)
	}
	for i, c := range p.Fence {
		now, then := p.Dialect.exact(c.SQL(), c), p.Dialect.item(alias+".dibs_f", i, Column{exactly: "pg_catalog.text"})
		conds = append(conds, fmt.Sprintf("%s = %s", now, then))
	}
	return strings.Join(conds, " and ")
}

// taken is true for rows that somebody is at.
func (p piece) taken() string {
	switch {
	case p.LockOnly() || p.Sideless:
		return "1 = 0"
	case p.SideTable:
		return "exists (select 1 from " + p.Side() + " s where s.source = " + p.Source() + " and s.key = " + p.Key + " and s.token is not null)"
	}
	return p.AtWork
}

// outNames are the columns of Out: a claim's marks, and then the rest of the row.
var outNames = []string{
	"dibs_key", "dibs_fence", "dibs_attempt", "dibs_claimed",
	"dibs_until", "dibs_run_at", "dibs_kind", "dibs_group", "dibs_worker", "dibs_payload",
}

const markNames = 4

// OutNames is Out of a part of the statement.
func (p piece) OutNames() string {
	names := outNames
	if !p.row {
		names = outNames[:markNames]
	}
	return "s." + strings.Join(names, ", s.")
}

// Out is what a statement tells of a row.
func (p piece) Out() string {
	null := func(has bool, expr func() string) string {
		if !has {
			return "null"
		}
		return expr()
	}
	fence := make([]string, len(p.Fence))
	for i, c := range p.Fence {
		fence[i] = p.Dialect.exact(c.SQL(), c)
	}
	attempt := p.attempts()
	exprs := []string{
		p.Key,
		null(len(fence) > 0, func() string { return p.Dialect.arrayOf(fence) }),
		null(attempt != "", func() string { return attempt }),
		p.Micros(),
	}
	if p.row {
		locked, _ := p.On.Column(p.Claim.LockedBy)
		exprs = append(exprs,
			p.until(),
			null(p.Before != nil, func() string { return p.Before.micros(p.Before.Column.SQL()) }),
			null(p.Kind != "", func() string { return p.Dialect.AsText(p.KindColumn.SQL()) }),
			null(p.Mapping.Group.Column != "", p.Group),
			null(p.Claim.LockedBy != "", func() string { return p.Dialect.AsText(locked.SQL()) }),
			p.payload(),
		)
	}
	for i := range exprs {
		exprs[i] += " as " + outNames[i]
	}
	return strings.Join(exprs, ", ")
}

// until is when the lease that a row holds ends.
func (p piece) until() string {
	switch {
	case p.SideTable:
	case p.Timeout != nil:
		return p.Timeout.micros(p.Timeout.Column.SQL())
	case p.Started != nil:
		return fmt.Sprintf("%s + %d", p.Started.micros(p.Started.Column.SQL()), (p.Lease + p.Started.Grain).Microseconds())
	}
	return "null"
}

// payload is the job's payload as JSON text.
func (p piece) payload() string {
	columns := p.Payload.Columns
	if len(columns) == 1 {
		c, _ := p.On.Column(columns[0])
		return p.Dialect.json(c.SQL(), c, p.Payload.JSON)
	}
	var members []Column
	var exprs []string
	for _, c := range p.On.Columns {
		if len(columns) == 0 || slices.Contains(columns, c.Name) {
			members, exprs = append(members, c), append(exprs, c.SQL())
		}
	}
	return p.Dialect.object(members, exprs)
}

// States of rows that no job has.
const (
	StateEnded     = "ended"     // however it did
	StateElsewhere = "elsewhere" // it is another queue's
	StateLoose     = "loose"     // the side table says that it is leased, but somebody else has put it back
)

// State is where a row is in its life: waiting, running, dead by the side table, or one of those above.
func (p piece) State() string {
	dead, void := "", ""
	if p.SideTable && p.Marked() {
		void = " when (" + p.worked + ") is not true and " + p.taken() + " then '" + StateLoose + "'"
	}
	if p.SideTable {
		dead = " when " + p.DeadBeside() + " then 'dead'"
		if p.Available != "" { // somebody else is at it: see stray
			dead += " when (" + p.Available + ") is not true then 'running'"
		}
	}
	return "case when (" + p.Unfinished + ") is not true then '" + StateEnded + "' when (" + p.Open + ") is not true then '" + StateElsewhere + "'" + void +
		" when " + p.taken() + " then 'running'" + dead + " else 'waiting' end"
}

// Since is when the claim of a row began.
func (p piece) Since() string {
	if p.Started == nil || p.SideTable {
		return "null"
	}
	return p.Started.micros(p.Started.Column.SQL())
}

// KindText is the row's kind, or empty.
func (p piece) KindText() string {
	if p.Kind == "" {
		return ""
	}
	return p.Dialect.AsText(p.KindColumn.SQL())
}

// Among is true if expr is in a JSON array of strings, or that is null.
func (p piece) Among(expr, list string) string { return p.Dialect.isAmong("("+expr+")", list) }
