package adopt

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/internal/qualify"
)

type postgresDatabase struct{}

var postgresDialect = dialect{database: postgresDatabase{}, forms: forms{
	folder: "postgres", title: "PostgreSQL", mark: "$",
	now:   "(extract(epoch from statement_timestamp()) * 1000000)::bigint", // which goes on in a long transaction, unlike now()
	array: "jsonb_build_array(%s)::text", comma: ", ",
	text: "%s::text", hex: "encode(%s, 'hex')",
	exactTime: "(extract(epoch from %s) * 1000000)::text",
	among:     "(%[2]s::jsonb is null or jsonb_exists(%[2]s::jsonb, %[1]s::text))",
	tokens:    map[kind]string{uuid: "%s::text::uuid", blob: "decode(%s::text, 'hex')", text: "%s::text"},
	tables:    postgresTables, alike: postgresAlike, stranger: postgresStranger,
	oneStatement: true, rowLocks: true, qualifies: true, escapes: true,
}}

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
       a.attgenerated <> '' or a.attidentity = 'a', a.attgenerated <> '', t.typtype,
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

var postgresTables = qualify.Text(`
select case when pg_table_is_visible(c.oid) then c.relname else n.nspname || '.' || c.relname end
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not n.nspname in ('pg_catalog', 'information_schema') and c.relname <> 'dibs_adopted'
order by 1
limit 1000`)

var postgresAlike = qualify.Text(`
select n.nspname, c.relname, pg_table_is_visible(c.oid)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and lower(c.relname) = lower($1) and not n.nspname in ('pg_catalog', 'information_schema')
order by 1, 2
limit 10`)

var postgresBeneath = qualify.Text(`
select distinct case when pg_table_is_visible(c.oid) then c.relname else (n.nspname || '.' || c.relname) end
from pg_rewrite w
join pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_catalog.pg_class'::regclass
join pg_class c on c.oid = d.refobjid and c.oid <> w.ev_class and c.relkind in ('r', 'p', 'v', 'm', 'f')
join pg_namespace n on n.oid = c.relnamespace
where w.ev_class = $1::bigint::oid
order by 1`)

func (postgresDatabase) lookUp(ctx context.Context, q querier, schema, name string) (*table, error) {
	full := quote(name)
	if schema != "" {
		full = quote(schema) + "." + full
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
			name: c[0], decl: c[1], kind: postgresKind(c[2], c[9]), null: yes(c[3]), def: c[4],
			length: int(atoi(c[5])), step: stepOf(int(atoi(c[6]))), generated: yes(c[7]), computed: yes(c[8]),
			exactly: c[10], equals: c[11],
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
	triggers, err := queryAll(ctx, q, qualify.Text(`select tgname from pg_trigger where tgrelid = $1::bigint::oid and not tgisinternal order by tgname`), t.id)
	for _, tr := range triggers {
		t.triggers = append(t.triggers, tr[0])
	}
	if t.view && err == nil {
		t.beneath, err = firstOf(queryAll(ctx, q, postgresBeneath, t.id))
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

func (postgresDatabase) clock(c column, f TimeFormat) (clock, error) {
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

func (postgresDatabase) json(expr string, c column, asJSON bool) string {
	switch {
	case c.kind == document:
		return expr + "::text"
	case asJSON: // the text itself; what is not JSON is made a string of by its reader
		return expr + "::text"
	}
	return "to_json(" + expr + ")::text"
}

func (postgresDatabase) object(_ []column, exprs []string) string {
	return "(select row_to_json(r) from (select " + strings.Join(exprs, ", ") + ") r)::text"
}

func (postgresDatabase) item(doc string, i int, c column) string {
	if c.kind == instant {
		return fmt.Sprintf("((%s->>%d)::timestamp at time zone 'utc')", doc, i)
	}
	return fmt.Sprintf("(%s->>%d)::%s", doc, i, qualify.Theirs(c.exactly))
}

// cast cuts off what is too long, as every cast that is written does.
func (postgresDatabase) cast(expr string, c column) string {
	return "(" + expr + ")::" + qualify.Theirs(c.exactly)
}

func (postgresDatabase) begin(ctx context.Context, db *sql.DB) (*session, error) {
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
