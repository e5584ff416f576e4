package adopt

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/internal/qualify"
)

type postgresDialect struct{}

func (postgresDialect) name() string { return "postgres" }
func (postgresDialect) mark() string { return "$" }

func (postgresDialect) qualified(statement string) string { return qualify.Text(statement) }
func (postgresDialect) theirs(part string) string         { return qualify.Theirs(part) }

func (postgresDialect) title() string { return "PostgreSQL" }
func (postgresDialect) can() traits   { return traits{oneStatement: true, rowLocks: true} }

var postgresTable = qualify.Text(`
select c.oid::bigint, n.nspname, c.relkind in ('v', 'm', 'f'),
       c.relkind = 'r' and not exists (select from pg_inherits i where i.inhparent = c.oid),
       case when c.reltuples < 0 then -1 else c.reltuples::bigint end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass($1) and c.relkind in ('r', 'p', 'v', 'm', 'f')`)

var postgresColumns = qualify.Text(`
select a.attname, format_type(a.atttypid, a.atttypmod), t.typname, not a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid),
       case when t.typname in ('bpchar', 'varchar') then greatest(a.atttypmod - 4, 0) else 0 end,
       case when t.typname in ('timestamp', 'timestamptz') then a.atttypmod else -1 end,
       a.attgenerated <> '' or a.attidentity = 'a', t.typtype,
       format('%I.%I', n.nspname, u.typname) || case when u.typname in ('interval', '_interval') then ''
           else coalesce(substring(format_type(a.atttypid, a.atttypmod), '[(][^()]*[)]'), '') end,
       (
           select format('operator(%I.%s)', s.nspname, o.oprname)
           from pg_opclass k
           join pg_am m on m.oid = k.opcmethod and m.amname = 'btree'
           join pg_amop e on e.amopfamily = k.opcfamily and e.amoplefttype = k.opcintype and e.amoprighttype = k.opcintype and e.amopstrategy = 3
           join pg_operator o on o.oid = e.amopopr
           join pg_namespace s on s.oid = o.oprnamespace
           where k.opcintype = t.oid and k.opcdefault and s.nspname <> 'pg_catalog'
       )
from pg_attribute a
join pg_type u on u.oid = a.atttypid
join pg_namespace n on n.oid = u.typnamespace
join pg_type t on t.oid = case when u.typtype = 'd' then u.typbasetype else u.oid end
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = $1::bigint::oid and a.attnum > 0 and not a.attisdropped
order by a.attnum`)

var postgresIndexes = qualify.Text(`
select c.relname, pg_get_indexdef(i.indexrelid), i.indisunique and i.indisvalid and i.indimmediate,
       coalesce(pg_get_expr(i.indpred, i.indrelid), ''),
       coalesce(string_agg(a.attname, chr(31) order by k.n) filter (where k.n <= i.indnkeyatts), ''),
       bool_or(k.attnum = 0)
from pg_index i
join pg_class c on c.oid = i.indexrelid
cross join unnest(i.indkey::int[]) with ordinality k (attnum, n)
left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
where i.indrelid = $1::bigint::oid and i.indisvalid
group by c.relname, i.indexrelid, i.indisunique, i.indisvalid, i.indimmediate, i.indpred, i.indrelid
order by c.relname`)

func (p postgresDialect) lookUp(ctx context.Context, q querier, schema, name string) (*table, error) {
	full := p.quote(name)
	if schema != "" {
		full = p.quote(schema) + "." + full
	}
	found, err := queryAll(ctx, q, postgresTable, full)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	t := &table{schema: found[0][1], name: name, view: yes(found[0][2]), whole: yes(found[0][3])}
	t.id, t.rows = atoi(found[0][0]), atoi(found[0][4])
	columns, err := queryAll(ctx, q, postgresColumns, t.id)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		t.columns = append(t.columns, column{
			name: c[0], decl: c[1], kind: postgresKind(c[2], c[8]), null: yes(c[3]), def: c[4],
			length: int(atoi(c[5])), step: stepOf(int(atoi(c[6]))), generated: yes(c[7]),
			exactly: c[9], equals: c[10],
		})
	}
	indexes, err := queryAll(ctx, q, postgresIndexes, t.id)
	if err != nil {
		return nil, err
	}
	for _, x := range indexes {
		found := index{name: x[0], def: x[1], unique: yes(x[2]), where: x[3]}
		if !yes(x[5]) {
			found.columns = strings.Split(x[4], "\x1f")
		}
		t.indexes = append(t.indexes, found)
	}
	triggers, err := queryAll(ctx, q, p.qualified(`select tgname from pg_trigger where tgrelid = $1::bigint::oid and not tgisinternal order by tgname`), t.id)
	for _, tr := range triggers {
		t.triggers = append(t.triggers, tr[0])
	}
	return t, err
}

// stepOf is what times with so many digits after the second are rounded to; 0: not beyond microseconds.
func stepOf(digits int) time.Duration {
	if digits < 0 || digits > 5 {
		return 0
	}
	step := time.Second
	for range digits {
		step /= 10
	}
	return step
}

func postgresKind(typ, typtype string) kind {
	switch typ {
	case "int2", "int4", "int8":
		return integer
	case "numeric", "float4", "float8":
		return number
	case "bool":
		return boolean
	case "text", "varchar", "bpchar", "citext", "name":
		return text
	case "bytea":
		return blob
	case "uuid":
		return uuid
	case "json", "jsonb":
		return document
	case "timestamptz":
		return instant
	case "timestamp":
		return stamp
	case "date":
		return date
	}
	if typtype == "e" {
		return text
	}
	return other
}

func (postgresDialect) quote(identifier string) string {
	return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"`
}

func (postgresDialect) literal(v any) (string, error) {
	if s, ok := v.(string); ok {
		quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
		if strings.Contains(s, `\`) { // means the same whatever standard_conforming_strings says
			quoted = "E" + strings.ReplaceAll(quoted, `\`, `\\`)
		}
		return quoted, nil
	}
	return plainLiteral(v)
}

// plainLiteral writes what all databases write alike.
func plainLiteral(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(v), nil
	case int, int64, uint64:
		return fmt.Sprint(v), nil
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return fmt.Sprint(v), nil
		}
	}
	return "", fmt.Errorf("must be null, a boolean, a number or a string; %v is none: put it in quotes if it is meant as text", v)
}

func (postgresDialect) clock(c column, f TimeFormat) (clock, error) {
	simple := func(now, epoch string, grain time.Duration) clock {
		return clock{
			now:   now,
			after: func(secs string) string { return "(" + now + " + make_interval(secs => " + secs + "))" },
			micros: func(e string) string { // of infinity there is none
				return "case when isfinite(" + e + ") then (extract(epoch from " + fmt.Sprintf(epoch, e) + ") * 1000000)::bigint end"
			},
			grain: grain,
		}
	}
	switch {
	case c.kind == instant:
		return simple("statement_timestamp()", "%s", c.step), nil
	case c.kind == stamp && (f == TimesUTC || f == ""):
		return simple("(statement_timestamp() at time zone 'utc')", "(%s at time zone 'utc')", c.step), nil
	case c.kind == stamp && f == TimesLocal:
		return simple("statement_timestamp()::timestamp", "%s::timestamptz", c.step), nil
	case c.kind == date:
		return simple("statement_timestamp()::date", "%s::timestamptz", 24*time.Hour), nil
	case c.kind == integer && (f == TimesUnix || f == "" || f == TimesUnixMS):
		unit, grain := "1", time.Second
		if f == TimesUnixMS {
			unit, grain = "1000", time.Millisecond
		}
		at := func(secs string) string {
			return "floor((extract(epoch from statement_timestamp()) + " + secs + ") * " + unit + ")::bigint"
		}
		return clock{
			now:    at("0"),
			after:  func(secs string) string { return at("(" + secs + ")") },
			micros: func(e string) string { return "(" + e + "::bigint * 1000000 / " + unit + ")" },
			grain:  grain,
		}, nil
	}
	return clock{}, timesError(c, f)
}

func timesError(c column, f TimeFormat) error {
	if f == "" {
		return fmt.Errorf("is of type %s, which holds no time", c.decl)
	}
	return fmt.Errorf("is of type %s, which holds no times of format %q", c.decl, f)
}

func (postgresDialect) json(expr string, c column, asJSON bool) string {
	switch {
	case c.kind == document:
		return expr + "::text"
	case asJSON: // the text itself; what is not JSON is made a string of by its reader
		return expr + "::text"
	}
	return "to_json(" + expr + ")::text"
}

func (postgresDialect) array(exprs []string) string {
	return "jsonb_build_array(" + strings.Join(exprs, ", ") + ")::text"
}

func (postgresDialect) comma() string { return ", " }

func (postgresDialect) object(_ []column, exprs []string) string {
	return "(select row_to_json(r) from (select " + strings.Join(exprs, ", ") + ") r)::text"
}

func (postgresDialect) document(text string) string { return "(" + text + "::jsonb)" }

// keyed writes a time in UTC: how one with a zone is written depends on the session's.
func (postgresDialect) keyed(expr string, c column) string {
	if c.kind == instant {
		return "(" + expr + " at time zone 'utc')"
	}
	return expr
}

func (postgresDialect) item(doc string, i int, c column) string {
	if c.kind == instant {
		return fmt.Sprintf("((%s->>%d)::timestamp at time zone 'utc')", doc, i)
	}
	return fmt.Sprintf("(%s->>%d)::%s", doc, i, qualify.Theirs(c.exactly))
}

func (p postgresDialect) exact(expr string, c column) string {
	switch c.kind {
	case instant, stamp: // whatever the session's time zone and date style are
		return "(extract(epoch from " + expr + ") * 1000000)::text"
	case blob:
		return "encode(" + expr + ", 'hex')"
	}
	return expr + "::text"
}

func (postgresDialect) token(param string, c column) (string, error) {
	switch {
	case c.kind == uuid:
		return param + "::text::uuid", nil
	case c.kind == blob:
		return "decode(" + param + "::text, 'hex')", nil
	case c.kind == text && (c.length == 0 || c.length >= 32):
		return param + "::text", nil
	}
	return "", tokenError(c)
}

func tokenError(c column) error {
	return fmt.Errorf("is of type %s; a token needs uuid, bytes, or text of at least 32 characters", c.decl)
}

func (postgresDialect) text(expr string) string { return expr + "::text" }

// micros goes on in a long transaction, unlike now().
func (postgresDialect) micros() string {
	return "(extract(epoch from statement_timestamp()) * 1000000)::bigint"
}

func (postgresDialect) cast(expr string, c column) string {
	if c.length > 0 {
		return fmt.Sprintf("left((%s)::text, %d)", expr, c.length)
	}
	return "(" + expr + ")::" + qualify.Theirs(c.exactly)
}

func (postgresDialect) among(expr, list string) string {
	return "(" + list + "::jsonb is null or jsonb_exists(" + list + "::jsonb, " + expr + "::text))"
}

func (postgresDialect) begin(ctx context.Context, db *sql.DB) (*session, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	return &session{
		querier:  tx,
		commit:   tx.Commit,
		rollback: func() { _ = tx.Rollback() }, // what went wrong is being reported
	}, nil
}

func yes(s string) bool { return s == "true" || s == "t" || s == "1" }

func atoi(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // of numbers that the database wrote
	return n
}
