package adopted

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/qualify"
)

type postgresDatabase struct{}

// Postgres is PostgreSQL's dialect.
var Postgres = Dialect{database: postgresDatabase{}, forms: forms{
	Title: "PostgreSQL", Mark: "$",
	files: templates("postgres"),
	batch: "jsonb_array_elements(%s::jsonb) v", member: "(v->>'%s')", part: "(v->'%s')",
	now:   "(extract(epoch from statement_timestamp()) * 1000000)::bigint", // unlike now(), it advances within a transaction
	array: "jsonb_build_array(%s)::text", Comma: ", ",
	text: "%s::text", hex: "encode(%s, 'hex')",
	exactTime: "(extract(epoch from %s) * 1000000)::text",
	keys:      map[kind]string{Instant: "(%s at time zone 'utc')"}, common: "as materialized",
	among:  "(%[2]s::jsonb is null or jsonb_exists(%[2]s::jsonb, %[1]s::text))",
	tokens: map[kind]string{UUID: "%s::text::uuid", Blob: "decode(%s::text, 'hex')", Text: "%s::text"},
	Tables: postgresTables, alike: postgresAlike, stranger: postgresStranger,
	OneStatement: true, RowLocks: true, qualifies: true, escapes: true,
}}

var postgresTable = qualify.Text(`
select c.oid::bigint, n.nspname, c.relkind in ('v', 'm', 'f'),
       c.relkind = 'r' and not exists (select from pg_inherits i where i.inhparent = c.oid),
       case when c.reltuples < 0 then -1 else c.reltuples::bigint end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass($1) and c.relkind in ('r', 'p', 'v', 'm', 'f')`)

// postgresColumns calls types nested that are written as JSON in more than one value. 114 and 3802 are json and jsonb.
var postgresColumns = qualify.Text(`
select a.attname, format_type(a.atttypid, a.atttypmod), t.typname, not a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid),
       case when t.typname in ('bpchar', 'varchar') then greatest(a.atttypmod - 4, 0) else 0 end,
       case when t.typname in ('timestamp', 'timestamptz') then a.atttypmod else -1 end,
       a.attgenerated <> '' or a.attidentity = 'a', a.attgenerated <> '',
       case when t.typcategory = 'A' or t.typtype = 'c' or exists (select from pg_cast k where k.castsource = t.oid and k.casttarget in (114, 3802) and not k.castsource in (114, 3802)) then 'nested' else t.typtype::text end,
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

func (postgresDatabase) lookUp(ctx context.Context, q Querier, schema, name string) (*Table, error) {
	full := Quote(name)
	if schema != "" {
		full = Quote(schema) + "." + full
	}
	found, err := QueryAll(ctx, q, postgresTable, full)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	t := &Table{Schema: found[0][1], Name: name, view: Yes(found[0][2]), Whole: Yes(found[0][3])}
	t.ID, t.rows = Atoi(found[0][0]), Atoi(found[0][4])
	columns, err := QueryAll(ctx, q, postgresColumns, t.ID)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		t.Columns = append(t.Columns, Column{
			Name: c[0], Decl: c[1], Kind: postgresKind(c[2], c[9]), Null: Yes(c[3]), Def: c[4],
			Length: int(Atoi(c[5])), step: stepOf(int(Atoi(c[6]))), Generated: Yes(c[7]), computed: Yes(c[8]),
			exactly: c[10], equals: c[11],
		})
	}
	indexes, err := QueryAll(ctx, q, postgresIndexes, t.ID)
	if err != nil {
		return nil, err
	}
	for _, x := range indexes {
		found := Index{Name: x[0], def: x[1], Unique: Yes(x[2]), Where: x[3]}
		if !Yes(x[5]) {
			found.Columns = strings.Split(x[4], "\x1f")
		}
		t.Indexes = append(t.Indexes, found)
	}
	triggers, err := QueryAll(ctx, q, qualify.Text(`select tgname from pg_trigger where tgrelid = $1::bigint::oid and not tgisinternal order by tgname`), t.ID)
	for _, tr := range triggers {
		t.Triggers = append(t.Triggers, tr[0])
	}
	if t.view && err == nil {
		t.beneath, err = FirstOf(QueryAll(ctx, q, postgresBeneath, t.ID))
	}
	return t, err
}

// stepOf is the unit of times with that many digits of a second; 0: microseconds.
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
		return Integer
	case "numeric", "float4", "float8":
		return Number
	case "bool":
		return Boolean
	case "text", "varchar", "bpchar", "citext", "name":
		return Text
	case "bytea":
		return Blob
	case "uuid":
		return UUID
	case "json", "jsonb":
		return Document
	case "timestamptz":
		return Instant
	case "timestamp":
		return Stamp
	case "date":
		return Date
	}
	if typtype == "nested" {
		return Nested
	}
	if typtype == "e" {
		return Text
	}
	return Other
}

func (postgresDatabase) Clock(c Column, f mapping.TimeFormat) (Clock, error) {
	simple := func(now, epoch string, grain time.Duration) Clock {
		after := func(secs string) string { return "(" + now + " + make_interval(secs => " + secs + "))" }
		down := now
		if c.Kind != Date && grain > 0 { // the column rounds to the nearest
			down = after(fmt.Sprintf("-%g", grain.Seconds()/2))
		}
		return Clock{
			now:   now,
			down:  down,
			After: after,
			micros: func(e string) string { // infinity has no such number
				return "case when isfinite(" + e + ") then (extract(epoch from " + fmt.Sprintf(epoch, e) + ") * 1000000)::bigint end"
			},
			Grain: grain,
		}
	}
	switch {
	case c.Kind == Instant:
		return simple("statement_timestamp()", "%s", c.step), nil
	case c.Kind == Stamp && (f == mapping.TimesUTC || f == ""):
		return simple("(statement_timestamp() at time zone 'utc')", "(%s at time zone 'utc')", c.step), nil
	case c.Kind == Stamp && f == mapping.TimesLocal:
		return simple("statement_timestamp()::timestamp", "%s::timestamptz", c.step), nil
	case c.Kind == Date:
		return simple("statement_timestamp()::date", "%s::timestamptz", 24*time.Hour), nil
	case c.Kind == Integer && (f == mapping.TimesUnix || f == "" || f == mapping.TimesUnixMS):
		unit, grain := "1", time.Second
		if f == mapping.TimesUnixMS {
			unit, grain = "1000", time.Millisecond
		}
		at := func(secs string) string {
			return "floor((extract(epoch from statement_timestamp()) + " + secs + ") * " + unit + ")::bigint"
		}
		return Clock{
			now:    at("0"),
			down:   at("0"),
			After:  func(secs string) string { return at("(" + secs + ")") },
			micros: func(e string) string { return "(" + e + "::bigint * 1000000 / " + unit + ")" },
			Grain:  grain,
		}, nil
	}
	return Clock{}, timesError(c, f)
}

func timesError(c Column, f mapping.TimeFormat) error {
	if f == "" {
		return fmt.Errorf("is of type %s, which holds no time", c.Decl)
	}
	return fmt.Errorf("is of type %s, which holds no times of format %q", c.Decl, f)
}

func (postgresDatabase) json(expr string, c Column, asJSON bool) string {
	if c.Kind == Document || asJSON { // the reader turns text that is not JSON into a string
		return expr + "::text"
	}
	return "to_json(" + expr + ")::text"
}

func (postgresDatabase) object(_ []Column, exprs []string) string {
	return "(select row_to_json(r) from (select " + strings.Join(exprs, ", ") + ") r)::text"
}

func (postgresDatabase) item(doc string, i int, c Column) string {
	if c.Kind == Instant {
		return fmt.Sprintf("((%s->>%d)::timestamp at time zone 'utc')", doc, i)
	}
	return fmt.Sprintf("(%s->>%d)::%s", doc, i, qualify.Theirs(c.exactly))
}

// cast writes an explicit cast, which cuts off text that is too long.
func (postgresDatabase) cast(expr string, c Column) string {
	return "(" + expr + ")::" + qualify.Theirs(c.exactly)
}

// Begin asks for READ COMMITTED: a snapshot of the whole transaction would miss claims committed since it began.
func (postgresDatabase) Begin(ctx context.Context, db *sql.DB) (*Session, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	return &Session{
		Querier:  tx,
		commit:   tx.Commit,
		Rollback: func() { _ = tx.Rollback() }, // the caller reports the error that led here
	}, nil
}

// Yes parses a boolean that the database wrote as text.
func Yes(s string) bool { return s == "true" || s == "t" || s == "1" }

// Atoi parses a number that the database wrote as text; null is 0.
func Atoi(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // the database writes valid numbers
	return n
}
