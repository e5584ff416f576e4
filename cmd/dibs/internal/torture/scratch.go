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

// maxTemplates is how many rows of the adopted table are read at most.
const maxTemplates = 200

// The torture puts the mapping's conditions and orders into its own statements, with its own
// code. It does not use dibs' code, since a judge must not share a mistake with the judged.

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quotedAll(names []string, before string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = before + quoted(n)
	}
	return strings.Join(all, ", ")
}

func (a *Adopted) tableSQL() string {
	parts := strings.SplitN(a.M.Table, ".", 2)
	for i := range parts {
		parts[i] = quoted(parts[i])
	}
	return strings.Join(parts, ".")
}

// nameSQL returns the SQL of a row's name: its id, or a JSON array if the id has several columns.
func (a *Adopted) nameSQL() string { return a.nameSQLOf("t") }

func (a *Adopted) nameSQLOf(alias string) string {
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

func (a *Adopted) openCondition() string {
	if a.M.Where == "" {
		return "(" + a.condition(a.M.Unfinished) + ")"
	}
	return "(" + a.condition(a.M.Where) + ") and (" + a.condition(a.M.Unfinished) + ")"
}

func (a *Adopted) readyCondition() string {
	if a.M.Available == "" {
		return a.openCondition()
	}
	return a.openCondition() + " and (" + a.condition(a.M.Available) + ")"
}

func (a *Adopted) orderBy() string {
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

// qualified returns a statement as it is sent. On PostgreSQL its functions and operators are
// qualified, so that it calls no object that somebody has planted in the search_path.
func (a *Adopted) qualified(text string) string {
	if a.SQLite {
		return text
	}
	return qualify.Text(text)
}

// condition marks a condition of the mapping, which is sent as the user wrote it.
func (a *Adopted) condition(condition string) string {
	if a.SQLite {
		return condition
	}
	return qualify.Theirs(condition)
}

// queryNames runs a select of one text column, such as the names of rows.
func (a *Adopted) queryNames(ctx context.Context, text string, args ...any) ([]string, error) {
	rows, err := a.SQL.QueryContext(ctx, a.qualified(text), args...)
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

// ended counts the rows that have ended. The statistics of an adopted table do not count them.
func (a *Adopted) ended(ctx context.Context) (n int64) {
	_ = a.SQL.QueryRowContext(ctx, a.qualified("select count(*) from "+a.Ends)).Scan(&n) // after an error, the progress shows 0
	return n
}

func (a *Adopted) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := a.SQL.ExecContext(ctx, a.qualified(s)); err != nil {
			return fmt.Errorf("%w\n%s", err, s)
		}
	}
	return nil
}

// Prepare completes a copy whose table exists: it makes the table of rows from which new rows
// are made, and triggers that note each end of a row.
func (a *Adopted) Prepare(ctx context.Context, schema string) error {
	if schema != "" {
		schema = quoted(schema) + "."
	}
	a.Ends, a.copies = schema+`"torture_ends"`, schema+`"torture_copies"`
	openRow := func(alias, not string) string {
		row := make([]string, len(a.Columns))
		for i, c := range a.Columns {
			row[i] = alias + "." + quoted(c) + " as " + quoted(c)
		}
		return not + "exists (select 1 from (select " + strings.Join(row, ", ") + ") t where " + a.openCondition() + ")"
	}
	err := a.exec(ctx,
		"create table "+a.copies+" as select "+quotedAll(a.Columns, "")+" from "+a.tableSQL(),
		"create table "+a.Ends+" (name varchar not null)")
	if err != nil {
		return err
	}
	note := "insert into " + a.Ends + " (name) values (" + a.nameSQLOf("old") + ")"
	if a.SQLite {
		return a.exec(ctx,
			"create trigger torture_update after update on "+a.tableSQL()+" when "+openRow("old", "")+" and "+openRow("new", "not ")+" begin "+note+"; end",
			"create trigger torture_delete after delete on "+a.tableSQL()+" when "+openRow("old", "")+" begin "+note+"; end")
	}
	function := func(name, when string) string {
		return "create function " + schema + name + "() returns trigger language plpgsql as $torture$ begin if " + when + " then " + note + "; end if; return null; end $torture$"
	}
	return a.exec(ctx,
		function("torture_update", openRow("old", "")+" and "+openRow("new", "not ")),
		function("torture_delete", openRow("old", "")),
		"create trigger torture_update after update on "+a.tableSQL()+" for each row execute function "+schema+"torture_update()",
		"create trigger torture_delete after delete on "+a.tableSQL()+" for each row execute function "+schema+"torture_delete()")
}

// keepCopies keeps only the template rows that have ended, and empties the copy.
func (a *Adopted) keepCopies(ctx context.Context) error {
	return a.exec(ctx,
		"delete from "+a.copies+" as t where not ("+a.nameSQL()+" in (select name from "+a.Ends+"))",
		"delete from "+a.tableSQL(), "delete from "+a.Ends)
}

// templates returns the SQL that fills a copy with available rows of a table. The only
// functions that it calls are those in the mapping's conditions.
func templates(m mapping.Mapping, from, to string, columns []string) string {
	ready := (&Adopted{M: m}).readyCondition()
	return qualify.Text("insert into " + to + " (" + quotedAll(columns, "") + ") select " + quotedAll(columns, "t.") + " from " + from + " t where " + ready + " limit " + strconv.Itoa(maxTemplates))
}

// forTorture returns the mapping of a copy. Its leases are short, so that stopped and killed
// processes often lose their leases.
func forTorture(m mapping.Mapping, table string) mapping.Mapping {
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
