package torture

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/qualify"
)

// templates is how many rows of the adopted table are read at most.
const templates = 200

// Conditions and orders are the mapping's, and go into statements of the torture as they do
// into those of dibs. That they are written here once more is on purpose: what judges
// must not share a mistake with what is judged.

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quotedAll(names []string, before string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = before + quoted(n)
	}
	return strings.Join(all, ", ")
}

func (a *Adopted) table() string {
	parts := strings.SplitN(a.M.Table, ".", 2)
	for i := range parts {
		parts[i] = quoted(parts[i])
	}
	return strings.Join(parts, ".")
}

// name is the SQL of what a row is called: its id, of several columns a JSON array.
func (a *Adopted) name() string { return a.nameIn("t") }

func (a *Adopted) nameIn(alias string) string {
	switch columns := quotedAll(a.M.ID, alias+"."); {
	case a.SQLite && len(a.M.ID) == 1:
		return "cast(" + columns + " as text)"
	case a.SQLite:
		return "json_array(" + columns + ")"
	case len(a.M.ID) == 1:
		return columns + "::text"
	default:
		return "jsonb_build_array(" + columns + ")::text"
	}
}

func nameOf(j *dibs.RawJob) string {
	if j.Key != "" {
		return j.Key
	}
	return strconv.FormatInt(j.ID, 10)
}

func (a *Adopted) open() string {
	if a.M.Where == "" {
		return "(" + a.theirs(a.M.Unfinished) + ")"
	}
	return "(" + a.theirs(a.M.Where) + ") and (" + a.theirs(a.M.Unfinished) + ")"
}

func (a *Adopted) ready() string {
	if a.M.Available == "" {
		return a.open()
	}
	return a.open() + " and (" + a.theirs(a.M.Available) + ")"
}

func (a *Adopted) order() string {
	var parts []string
	for _, o := range a.M.Order {
		name, desc := strings.CutSuffix(o, " desc")
		part := "t." + quoted(strings.TrimSpace(strings.TrimSuffix(name, " asc")))
		if desc {
			part += " desc"
		}
		parts = append(parts, part)
	}
	return strings.Join(append(parts, quotedAll(a.M.ID, "t.")), ", ")
}

// sent is a statement as it is sent: what is planted in a search_path must not be called.
func (a *Adopted) sent(text string) string {
	if a.SQLite {
		return text
	}
	return qualify.Text(text)
}

// theirs is a condition of the mapping, which is sent as it is written.
func (a *Adopted) theirs(condition string) string {
	if a.SQLite {
		return condition
	}
	return qualify.Theirs(condition)
}

// names runs a select of names.
func (a *Adopted) names(ctx context.Context, text string, args ...any) ([]string, error) {
	rows, err := a.SQL.QueryContext(ctx, a.sent(text), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var n string
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}

// ended counts the rows that have ended, which a queue on an adopted table does not.
func (a *Adopted) ended(ctx context.Context) (n int64) {
	_ = a.SQL.QueryRowContext(ctx, a.sent("select count(*) from "+a.Ends)).Scan(&n) // only shown
	return n
}

func (a *Adopted) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := a.SQL.ExecContext(ctx, a.sent(s)); err != nil {
			return fmt.Errorf("%w\n%s", err, s)
		}
	}
	return nil
}

// Prepare makes what belongs to a copy, whose own table is there: the table of rows to
// make others from, and triggers that note each end of a row.
func (a *Adopted) Prepare(ctx context.Context, schema string) error {
	if schema != "" {
		schema = quoted(schema) + "."
	}
	a.Ends, a.copies = schema+`"torture_ends"`, schema+`"torture_copies"`
	was := func(alias, not string) string {
		row := make([]string, len(a.Columns))
		for i, c := range a.Columns {
			row[i] = alias + "." + quoted(c) + " as " + quoted(c)
		}
		return not + "exists (select 1 from (select " + strings.Join(row, ", ") + ") t where " + a.open() + ")"
	}
	err := a.exec(ctx,
		"create table "+a.copies+" as select "+quotedAll(a.Columns, "")+" from "+a.table(),
		"create table "+a.Ends+" (name varchar not null)")
	if err != nil {
		return err
	}
	note := "insert into " + a.Ends + " (name) values (" + a.nameIn("old") + ")"
	if a.SQLite {
		return a.exec(ctx,
			"create trigger torture_update after update on "+a.table()+" when "+was("old", "")+" and "+was("new", "not ")+" begin "+note+"; end",
			"create trigger torture_delete after delete on "+a.table()+" when "+was("old", "")+" begin "+note+"; end")
	}
	function := func(name, when string) string {
		return "create function " + schema + name + "() returns trigger language plpgsql as $torture$ begin if " + when + " then " + note + "; end if; return null; end $torture$"
	}
	return a.exec(ctx,
		function("torture_update", was("old", "")+" and "+was("new", "not ")),
		function("torture_delete", was("old", "")),
		"create trigger torture_update after update on "+a.table()+" for each row execute function "+schema+"torture_update()",
		"create trigger torture_delete after delete on "+a.table()+" for each row execute function "+schema+"torture_delete()")
}

// keepCopies keeps, of the rows to make others from, those that have ended, and empties the copy.
func (a *Adopted) keepCopies(ctx context.Context) error {
	return a.exec(ctx,
		"delete from "+a.copies+" as t where not ("+a.name()+" in (select name from "+a.Ends+"))",
		"delete from "+a.table(), "delete from "+a.Ends)
}

// Templates is the SQL that fills a copy from a table, with rows that are available. It calls nothing but the mapping's conditions.
func Templates(m mapping.Mapping, from, to string, columns []string) string {
	ready := (&Adopted{M: m}).ready()
	return qualify.Text("insert into " + to + " (" + quotedAll(columns, "") + ") select " + quotedAll(columns, "t.") + " from " + from + " t where " + ready + " limit " + strconv.Itoa(templates))
}

// ForTorture is the mapping of a copy: its leases are short, so that stopped and killed
// processes lose theirs all the time.
func ForTorture(m mapping.Mapping, table string) mapping.Mapping {
	m.Table, m.Lease = table, lease
	m.Backoff = tortureBackoff
	return m
}

func isText(rows *sql.ColumnType) bool {
	switch rows.DatabaseTypeName() {
	case "TEXT", "VARCHAR", "CHAR", "BPCHAR", "NAME":
		return true
	}
	return strings.Contains(strings.ToUpper(rows.DatabaseTypeName()), "CHAR")
}
