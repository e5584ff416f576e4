package adopted

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
)

type sqliteDatabase struct{}

// SQLite is SQLite's dialect.
var SQLite = Dialect{database: sqliteDatabase{}, forms: forms{
	Title: "SQLite", Mark: "?",
	files: templates("sqlite"),
	batch: "json_each(%s) v", member: "(v.value ->> '%s')", part: "(v.value -> '%s')",
	now:   "cast(unixepoch('now', 'subsec') * 1000000 as integer)",
	array: "json_array(%s)", Comma: ",",
	text: "cast(%s as text)", hex: "hex(%s)",
	exactTime: "cast(%s as text)", common: "as materialized",
	among:  "(%[2]s is null or %[1]s in (select value from json_each(%[2]s)))",
	tokens: map[kind]string{Blob: "unhex(%s)", Text: "%s", Other: "%s"},
	Tables: sqliteTables, alike: sqliteAlike,
	Lenient: true,
}}

const sqliteTables = `
select name
from sqlite_schema
where type = 'table' and name not like 'sqlite!_%' escape '!' and name <> 'dibs_adopted'
order by name
limit 1000`

// sqliteAlike finds tables with a name in any case. lookUp has already found those of main.
const sqliteAlike = `
select schema, name, schema in ('main', 'temp')
from pragma_table_list
where lower(name) = lower(?)
order by 1, 2
limit 10`

func (sqliteDatabase) lookUp(ctx context.Context, q Querier, schema, name string) (*Table, error) {
	if schema == "" {
		schema = "main"
	}
	found, err := QueryAll(ctx, q, `select name, type, wr from pragma_table_list where schema = ? and name = ? collate nocase`, schema, name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	t := &Table{Schema: schema, Name: found[0][0], view: found[0][1] != "table", rows: -1}
	columns, err := QueryAll(ctx, q, `select name, type, "notnull", dflt_value, pk, hidden from pragma_table_xinfo(?, ?)`, t.Name, schema)
	if err != nil {
		return nil, err
	}
	var key []string
	for _, c := range columns {
		pk, made := c[4] != "0", c[5] == "2" || c[5] == "3"
		if pk {
			key = append(key, c[0])
		}
		t.Columns = append(t.Columns, Column{
			Name: c[0], Decl: c[1], Kind: sqliteKind(c[1]), Null: c[2] == "0" && !pk, Def: c[3],
			Generated: made, computed: made,
			NullInKey: pk && c[2] == "0" && !Yes(found[0][2]),
		})
	}
	if c, ok := t.Column(strings.Join(key, "\x1f")); ok && strings.EqualFold(c.Decl, "integer") {
		t.Columns[slices.Index(t.Columns, c)].NullInKey = false // the rowid is never null
	}
	indexes, err := QueryAll(ctx, q, `
		select l.name, coalesce(s.sql, ''), l."unique", l.partial,
		       (select group_concat(coalesce(i.name, ''), char(31)) from (select name from pragma_index_info(l.name, ?2) order by seqno) i)
		from pragma_index_list(?1, ?2) l left join `+Quote(schema)+`.sqlite_schema s on s.name = l.name
		order by l.name`, t.Name, schema)
	if err != nil {
		return nil, err
	}
	for _, x := range indexes {
		found := Index{Name: x[0], def: x[1], Unique: Yes(x[2])}
		if !strings.Contains("\x1f"+x[4]+"\x1f", "\x1f\x1f") {
			found.Columns = strings.Split(x[4], "\x1f")
		}
		if Yes(x[3]) {
			_, found.Where, _ = cutFold(x[1], " where ")
		}
		t.Indexes = append(t.Indexes, found)
	}
	if c, ok := t.Column(strings.Join(key, "\x1f")); ok && c.Kind == Integer { // the rowid is unique without an index
		t.Indexes = append(t.Indexes, Index{Name: "rowid", Columns: key, Unique: true})
	}
	triggers, err := QueryAll(ctx, q, `select name from `+Quote(schema)+`.sqlite_schema where type = 'trigger' and tbl_name = ? collate nocase order by name`, t.Name)
	for _, tr := range triggers {
		t.Triggers = append(t.Triggers, tr[0])
	}
	if t.view && err == nil {
		t.beneath, err = sqliteBeneath(ctx, q, t)
	}
	return t, err
}

var afterFrom = regexp.MustCompile("(?i)\\b(?:from|join)\\s+[\"'`\\[]?([\\pL_][\\pL\\pN_]*)")

var fromSeveral = regexp.MustCompile(`(?i)\bfrom\s+\S+(\s+(as\s+)?\w+)?\s*,`)

// sqliteBeneath reads the tables of a view from its statement, since SQLite keeps no list of them.
func sqliteBeneath(ctx context.Context, q Querier, view *Table) ([]string, error) {
	text, err := FirstOf(QueryAll(ctx, q, "select sql from "+Quote(view.Schema)+".sqlite_schema where type = 'view' and name = ?", view.Name))
	if err != nil || len(text) == 0 || fromSeveral.MatchString(text[0]) {
		return nil, err
	}
	tables, err := FirstOf(QueryAll(ctx, q, sqliteTables))
	var found []string
	for _, m := range afterFrom.FindAllStringSubmatch(text[0], -1) {
		for _, t := range tables {
			if strings.EqualFold(t, m[1]) && !slices.Contains(found, t) {
				found = append(found, t)
			}
		}
	}
	return found, err
}

func cutFold(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(strings.ToLower(s), sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// sqliteKind derives the kind from the declared type, much as SQLite does for affinity.
func sqliteKind(decl string) kind {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(strings.ToUpper(decl), p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("BOOL"), strings.EqualFold(decl, "bit"), strings.EqualFold(decl, "bit(1)"): // SQL Server's name for it
		return Boolean
	case has("INT"):
		return Integer
	case has("JSON"):
		return Document
	case has("CHAR", "CLOB", "TEXT", "UUID", "GUID", "UNIQUEIDENTIFIER"):
		return Text
	case has("DATE", "TIME"):
		return Stamp
	case has("BLOB", "BINARY"):
		return Blob
	case has("REAL", "FLOA", "DOUB", "NUM", "DEC"):
		return Number
	}
	return Other
}

func (sqliteDatabase) Clock(c Column, f mapping.TimeFormat) (Clock, error) {
	if f == "" {
		f = mapping.TimesSeconds
		if c.Kind == Integer {
			f = mapping.TimesUnix
		}
	}
	const unixMicros = "cast(round(unixepoch(%s, 'subsec') * 1000000.0) as integer)"
	words := func(format string, grain time.Duration) Clock {
		return Clock{
			now:    "strftime('" + format + "', 'now')",
			down:   "strftime('" + format + "', 'now')",
			After:  func(secs string) string { return "strftime('" + format + "', 'now', (" + secs + ") || ' seconds')" },
			micros: func(e string) string { return fmt.Sprintf(unixMicros, e) },
			Grain:  grain,
		}
	}
	count := func(unit string, grain time.Duration) Clock {
		at := func(secs string) string {
			return "cast((unixepoch('now', 'subsec') + " + secs + ") * " + unit + " as integer)"
		}
		return Clock{
			now:    at("0"),
			down:   at("0"),
			After:  func(secs string) string { return at("(" + secs + ")") },
			micros: func(e string) string { return "(" + e + " * 1000000 / " + unit + ")" },
			Grain:  grain,
		}
	}
	textual := c.Kind == Text || c.Kind == Stamp || c.Kind == Date || c.Kind == Other
	switch {
	case f == mapping.TimesSeconds && textual:
		return words("%Y-%m-%d %H:%M:%S", time.Second), nil
	case f == mapping.TimesMillis && textual:
		return words("%Y-%m-%d %H:%M:%f", time.Millisecond), nil
	case f == mapping.TimesMicros && textual: // SQLite's clock has milliseconds
		return words("%Y-%m-%d %H:%M:%f000", time.Millisecond), nil
	case f == mapping.TimesISO && textual:
		return words("%Y-%m-%dT%H:%M:%fZ", time.Millisecond), nil
	case f == mapping.TimesUnix && (c.Kind == Integer || c.Kind == Stamp || c.Kind == Number || c.Kind == Other):
		return count("1", time.Second), nil
	case f == mapping.TimesUnixMS && (c.Kind == Integer || c.Kind == Stamp || c.Kind == Number || c.Kind == Other):
		return count("1000", time.Millisecond), nil
	}
	return Clock{}, timesError(c, f)
}

func (sqliteDatabase) json(expr string, c Column, asJSON bool) string {
	switch {
	case c.Kind == Document, asJSON:
		return "cast(" + expr + " as text)"
	case c.Kind == Boolean:
		return "case when " + expr + " is null then 'null' when " + expr + " then 'true' else 'false' end"
	}
	return "case typeof(" + expr + ") when 'blob' then json_quote(hex(" + expr + ")) else json_quote(" + expr + ") end"
}

// object concatenates text, since json_object takes only about 60 members.
func (s sqliteDatabase) object(columns []Column, exprs []string) string {
	parts := make([]string, len(exprs))
	for i, c := range columns {
		name, _ := json.Marshal(c.Name) // no error: it is a string
		lit := SQLite.str(string(name) + ":")
		value := s.json(exprs[i], c, false)
		if c.Kind == Document {
			value = "case when json_valid(" + exprs[i] + ") then " + exprs[i] + " else json_quote(" + exprs[i] + ") end"
		}
		parts[i] = lit + " || " + value
	}
	return "'{' || " + strings.Join(parts, " || ',' || ") + " || '}'"
}

func (sqliteDatabase) item(doc string, i int, _ Column) string {
	return fmt.Sprintf("json_extract(%s, '$[%d]')", doc, i)
}

// cast gives the value the affinity of the column: comparisons depend on it.
func (sqliteDatabase) cast(expr string, c Column) string {
	switch c.Kind {
	case Text:
		return "cast(" + expr + " as text)"
	case Integer, Number, Boolean:
		if !strings.HasPrefix(expr, "'") { // numeric columns keep text as text
			return "cast(" + expr + " as numeric)"
		}
	}
	return expr
}

// busyWait is how long a transaction waits for the file's write lock, the same as in package sqlite: SQLite does
// not serve waiters in order, so on a busy machine one can wait for many seconds.
const busyWait = time.Minute

// Begin takes the write lock at once, because SQLite may refuse a write after a read.
func (sqliteDatabase) Begin(ctx context.Context, db *sql.DB) (*Session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(busyWait); ; {
		_, err = conn.ExecContext(ctx, "begin immediate")
		if err == nil || !busy(err) || time.Now().After(deadline) {
			break
		}
		select {
		case <-time.After(time.Millisecond + rand.N(9*time.Millisecond)):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), conn.Close())
		}
	}
	if err != nil { // the transaction may have begun nevertheless, if the context ended meanwhile
		_ = conn.Raw(func(any) error { return errBad })
		return nil, errors.Join(err, conn.Close())
	}
	end := func(statement string) error {
		// The transaction must end even if ctx has: others get the connection next.
		_, err := conn.ExecContext(context.WithoutCancel(ctx), statement)
		if err != nil {
			_ = conn.Raw(func(any) error { return errBad }) // no other caller may get an open transaction
		}
		return errors.Join(err, conn.Close())
	}
	return &Session{
		Querier:  conn,
		commit:   func() error { return end("commit") },
		Rollback: func() { _ = end("rollback") }, // the caller reports the error that led here
	}, nil
}
