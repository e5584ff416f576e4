package adopted

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The methods of piece fill in the templates of sql/.

// Joined writes each value, with a separator between them.
func Joined[T any](all []T, separator string, write func(i int, v T) string) string {
	parts := make([]string, len(all))
	for i, v := range all {
		parts[i] = write(i, v)
	}
	return strings.Join(parts, separator)
}

// numberedAs lists one column name for each value: the prefix and a number.
func numberedAs[T any](all []T, prefix string) string {
	return Joined(all, ", ", func(i int, _ T) string { return fmt.Sprint(prefix, i) })
}

// At selects columns that identify a row within one statement: its place in the table if the
// database has one (ctid), else its id. AtIn and AtIs find the row by them.
func (p piece) At() string {
	if p.byPlace() {
		return "t.ctid as dibs_at"
	}
	return Joined(p.Keys, ", ", func(i int, k Column) string { return fmt.Sprintf("%s as dibs_a%d", k.SQL(), i) })
}

func (p piece) byPlace() bool { return p.On.Whole }

// Only excludes rows of child tables created since: they may have the same ctid as rows of the table.
func (p piece) Only() string {
	if p.byPlace() {
		return "only "
	}
	return ""
}

// AtOf lists the columns that At has selected in a part of the statement with that alias.
func (p piece) AtOf(alias string) string {
	if p.byPlace() {
		return alias + ".dibs_at"
	}
	return numberedAs(p.Keys, alias+".dibs_a")
}

// AtIn is a condition for the rows that At has selected in a part of the statement.
func (p piece) AtIn(part string) string {
	if p.byPlace() {
		return "t.ctid = any (array(select dibs_at from " + part + "))"
	}
	if slices.ContainsFunc(p.Keys, func(k Column) bool { return k.equals != "" }) { // "in" takes no operator with a schema
		return "exists (select from " + part + " a where " + p.AtIs("a") + ")"
	}
	own := Joined(p.Keys, ", ", func(_ int, k Column) string { return k.SQL() })
	return "(" + own + ") in (select " + numberedAs(p.Keys, "dibs_a") + " from " + part + ")"
}

// AtIs is a condition for the row that At has selected in a row with that alias.
func (p piece) AtIs(alias string) string {
	if p.byPlace() {
		return "t.ctid = " + alias + ".dibs_at"
	}
	return p.keysAre(alias + ".dibs_a")
}

// is compares a column with a value of its type for equality.
func (p *Plan) is(c Column, value string) string {
	if c.collation != "" { // a collation may take two texts for the same
		return "(" + c.SQL() + " = " + value + " and " + fmt.Sprintf(mariaText, c.SQL()) + " = " + fmt.Sprintf(mariaText, value) + ")"
	}
	return c.SQL() + " " + cmp.Or(c.equals, "=") + " " + value
}

// keysAre is a condition for the row whose id stands in columns named prefix and a number.
func (p piece) keysAre(prefix string) string {
	return Joined(p.Keys, " and ", func(i int, k Column) string { return p.is(k, fmt.Sprint(prefix, i)) })
}

// OrderAs selects the columns of the claim order for another part of the statement.
func (p piece) OrderAs() string {
	return Joined(p.Ordering, ", ", func(i int, o OrderColumn) string { return fmt.Sprintf("%s as dibs_o%d", o.Column.SQL(), i) })
}

// OrderOf lists the columns that OrderAs has selected.
func (p piece) OrderOf(alias string) string { return numberedAs(p.Ordering, alias+".dibs_o") }

// OrderBy sorts by the columns that OrderAs has selected.
func (p piece) OrderBy(alias string) string {
	return Joined(p.Ordering, ", ", func(i int, o OrderColumn) string { return o.By(fmt.Sprintf("%s.dibs_o%d", alias, i)) })
}

// Batch lists the elements of the parameter batch as rows v.
func (p piece) Batch() string { return fmt.Sprintf(p.Dialect.batch, param("batch")) }

// Member is a member of a row of Batch, as text.
func (p piece) Member(name string) string { return fmt.Sprintf(p.Dialect.member, name) }

// Part is a member of a row of Batch, as JSON.
func (p piece) Part(name string) string { return fmt.Sprintf(p.Dialect.part, name) }

// KeyItems selects the items of a key, which is a JSON array, as columns.
func (p piece) KeyItems(doc string) string {
	return Joined(p.Keys, ", ", func(i int, k Column) string {
		return fmt.Sprintf("%s as dibs_k%d", p.Dialect.item("("+doc+")", i, k), i)
	})
}

// KeyOf lists the columns that KeyItems has selected.
func (p piece) KeyOf(alias string) string { return numberedAs(p.Keys, alias+".dibs_k") }

// KeyIs is a condition for the row with the key that KeyItems has selected.
func (p piece) KeyIs(alias string) string { return p.keysAre(alias + ".dibs_k") }

// KeyFrom is the key of the row whose id KeyItems has selected.
func (p piece) KeyFrom(alias string) string {
	exprs := make([]string, len(p.Keys))
	for i, k := range p.Keys {
		exprs[i] = p.Dialect.inKey(fmt.Sprintf("%s.dibs_k%d", alias, i), k)
	}
	return p.Dialect.arrayOf(exprs)
}

// ByKey has the database find rows by the index of their id, and by no other.
func (p piece) ByKey() string {
	for _, x := range p.On.Indexes {
		if (&Table{Indexes: []Index{x}}).Keyed(p.ID) {
			return "force index (" + Quote(x.Name) + ")"
		}
	}
	return ""
}

// KeyOfSide is a condition for the row whose key is doc, a JSON array of the side table.
func (p piece) KeyOfSide(doc string) string {
	return Joined(p.Keys, " and ", func(i int, k Column) string { return p.is(k, p.Dialect.item(doc, i, k)) })
}

// Group is SQL for the row's group as text; empty: there are no groups.
func (p piece) Group() string {
	if p.Mapping.Group.Column == "" {
		return ""
	}
	return p.Dialect.AsText(p.GroupColumn.SQL())
}

// Limit is how many rows of a group may run at once.
func (p piece) Limit() int { return p.Mapping.Group.Limit }

// Busy selects from the rows that run and have a group.
func (p piece) Busy() string {
	if p.SideTable && !p.Marked() {
		return p.Side() + " s where s.source = " + p.Source() + " and s.queue = " + p.Name() + " and s.token is not null and s.grp is not null"
	}
	return p.Table + " t where " + p.AtWork + " and " + p.GroupColumn.SQL() + " is not null"
}

// BusyGroup is SQL for the group of a row of Busy.
func (p piece) BusyGroup() string {
	if p.SideTable && !p.Marked() {
		return "s.grp"
	}
	return p.Group()
}

// Turn is the number of the adopted table in the locks of turn.sql.
func (p piece) Turn() string { return fmt.Sprint(p.On.ID) }

// Alone is the number of the adopted table in the lock of alone.sql.
func (p piece) Alone() string { return fmt.Sprint(int32(uint32(p.On.ID))) }

// TurnOf is the name of a group's turn, as SQL: the server has one set of locks for all tables.
func (p piece) TurnOf(group string) string {
	table, _ := p.Dialect.Literal(p.On.Schema + "." + p.On.Name + "/") // no error: every string has a literal
	return "concat(" + table + ", " + group + ")"
}

// Free is a condition for a row of the side table that nobody has leased, and that may start.
func (p piece) Free() string {
	return fmt.Sprintf("%[1]s.token is null and %[1]s.dead = 0 and %[1]s.run_at <= %[2]s", p.Side(), p.Micros())
}

// BusyRow is a condition for running rows without a lease in the side table.
func (p piece) BusyRow() string {
	if p.SideTable {
		return p.AtWork + " and (" + p.taken() + ") is not true"
	}
	return p.AtWork
}

// Held is a condition for a row that still is as its claim left it, and whose lease lasts.
func (p piece) Held(alias string) string { return p.held(alias, p.live()) }

// HeldOrOwn is the same as Held, except that leases of claims in the same transaction do not end.
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

// taken is a condition for rows that a worker has claimed.
func (p piece) taken() string {
	switch {
	case p.LockOnly() || p.Sideless:
		return "1 = 0"
	case p.SideTable:
		return "exists (select 1 from " + p.Side() + " s where s.source = " + p.Source() + " and s.key = " + p.Key + " and s.token is not null)"
	}
	return p.AtWork
}

// outNames lists the columns of Out: first the marks of a claim, then the rest of the row.
var outNames = []string{
	"dibs_key", "dibs_fence", "dibs_attempt", "dibs_claimed",
	"dibs_until", "dibs_run_at", "dibs_kind", "dibs_group", "dibs_worker", "dibs_most", "dibs_payload",
}

const markNames = 4 // number of marks in outNames

// OutNames lists the columns that Out has selected in the part s of the statement.
func (p piece) OutNames() string {
	names := outNames
	if !p.row {
		names = outNames[:markNames]
	}
	return "s." + strings.Join(names, ", s.")
}

// Out selects what a statement returns of a row.
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
			null(p.LimitsAttempts(), p.MostAttempts),
			p.payload(),
		)
	}
	for i := range exprs {
		exprs[i] += " as " + outNames[i]
	}
	return strings.Join(exprs, ", ")
}

// until is SQL for the end of the lease that a row holds, in microseconds since 1970.
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

// payload is SQL for the job's payload as JSON text.
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

// These states of rows are not states of jobs.
const (
	StateEnded     = "ended"     // completed, dead or cancelled
	StateElsewhere = "elsewhere" // the row is in another queue
	StateOverruled = "overruled" // the side table has a lease, but another program has put the row back
)

// MostBeside is MostAttempts for the row whose key is doc, a JSON array of the side table.
func (p piece) MostBeside(doc string) string {
	if p.MaxAttemptsColumn == "" {
		return p.MostAttempts()
	}
	return "(select " + p.MostAttempts() + " from " + p.Table + " t where " + p.KeyOfSide(doc) + ")"
}

// State is SQL for the state of a row: waiting, running, dead (in the side table), StateEnded, StateElsewhere or StateOverruled.
func (p piece) State() string {
	dead, void := "", ""
	if p.SideTable && p.Marked() {
		void = " when (" + p.worked + ") is not true and " + p.taken() + " then '" + StateOverruled + "'"
	}
	if p.SideTable {
		dead = " when " + p.DeadBeside() + " then 'dead'"
		if p.Available != "" { // another program has taken the row: see Stray
			dead += " when (" + p.Available + ") is not true then 'running'"
		}
	}
	return "case when (" + p.Unfinished + ") is not true then '" + StateEnded + "' when (" + p.Open + ") is not true then '" + StateElsewhere + "'" + void +
		" when " + p.taken() + " then 'running'" + dead + " else 'waiting' end"
}

// Since is SQL for the start of a row's claim, in microseconds since 1970.
func (p piece) Since() string {
	if p.Started == nil || p.SideTable {
		return "null"
	}
	return p.Started.micros(p.Started.Column.SQL())
}

// KindText is SQL for the row's kind; empty: rows have no kinds.
func (p piece) KindText() string {
	if p.Kind == "" {
		return ""
	}
	return p.Dialect.AsText(p.KindColumn.SQL())
}

// NotPassed is a condition for rows whose keys are not in the parameter passed, a JSON array.
func (p piece) NotPassed() string { return p.NotAmong(p.Key, param("passed")) }

// NotAmong is a condition: expr is not in a JSON array of strings, or the array is null. With null, as usual, it costs nothing
// for each row.
func (p piece) NotAmong(expr, list string) string {
	return "(" + p.Dialect.AsText(list) + " is null or not " + p.Among(expr, list) + ")"
}

// Among is a condition: expr is in a JSON array of strings, or the array is null.
func (p piece) Among(expr, list string) string { return p.Dialect.isAmong("("+expr+")", list) }
