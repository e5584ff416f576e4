package adopted

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

const mariaTables = `
select case when table_schema = database() then table_name else concat(table_schema, '.', table_name) end
from information_schema.tables
where table_type = 'BASE TABLE' and not table_schema in ('information_schema', 'mysql', 'performance_schema', 'sys') and table_name <> 'dibs_adopted'
order by 1
limit 1000`

const mariaAlike = `
select table_schema, table_name, coalesce(table_schema = database(), 0)
from information_schema.tables
where lower(table_name) = lower(?) and not table_schema in ('information_schema', 'mysql', 'performance_schema', 'sys')
order by 1, 2
limit 10`

const mariaTable = `
select table_schema, table_name, table_type, coalesce(engine, ''), coalesce(table_rows, -1)
from information_schema.tables
where table_schema = coalesce(nullif(?, ''), database()) and table_name = ?`

const mariaColumns = `
select column_name, column_type, data_type, is_nullable, coalesce(column_default, ''), coalesce(character_maximum_length, 0), coalesce(character_octet_length, 0),
    coalesce(datetime_precision, 6), coalesce(character_set_name, ''), coalesce(collation_name, ''), is_generated
from information_schema.columns
where table_schema = ? and table_name = ?
order by ordinal_position`

const mariaIndexes = `
select index_name, non_unique, index_type, group_concat(column_name order by seq_in_index separator '\x1f')
from information_schema.statistics
where table_schema = ? and table_name = ?
group by index_name, non_unique, index_type
order by index_name`

func (mariaDatabase) lookUp(ctx context.Context, q Querier, schema, name string) (*Table, error) {
	found, err := QueryAll(ctx, q, mariaTable, schema, name)
	found = slices.DeleteFunc(found, func(r []string) bool { return r[1] != name }) // the server compares without case
	if err != nil || len(found) == 0 {
		return nil, err
	}
	f := found[0]
	t := &Table{Schema: f[0], Name: name, view: f[2] != "BASE TABLE", rows: Atoi(f[4])}
	if f[3] != "InnoDB" && !t.view {
		t.unfit = "has the storage engine " + f[3] + ", which has no transactions, so that two workers could claim one row: alter table " + backticked(t.Quoted()) + " engine = InnoDB"
	}
	if err := t.mariaColumns(ctx, q); err != nil {
		return nil, err
	}
	indexes, err := QueryAll(ctx, q, strings.ReplaceAll(mariaIndexes, `\x1f`, "\x1f"), t.Schema, t.Name)
	if err != nil {
		return nil, err
	}
	for _, x := range indexes {
		if x[2] == "BTREE" {
			t.Indexes = append(t.Indexes, Index{Name: x[0], Unique: !Yes(x[1]), Columns: strings.Split(x[3], "\x1f")})
		}
	}
	t.Triggers, err = FirstOf(QueryAll(ctx, q, "select trigger_name from information_schema.triggers where event_object_schema = ? and event_object_table = ? order by 1", t.Schema, t.Name))
	return t, err
}

func (t *Table) mariaColumns(ctx context.Context, q Querier) error {
	checks, err := FirstOf(QueryAll(ctx, q, "select check_clause from information_schema.check_constraints where constraint_schema = ? and table_name = ?", t.Schema, t.Name))
	if err != nil {
		return err
	}
	columns, err := QueryAll(ctx, q, mariaColumns, t.Schema, t.Name)
	for _, r := range columns {
		c := Column{Name: r[0], Decl: r[1], Null: r[3] == "YES", Def: mariaDefault(r[4]), charset: r[8], collation: r[9], Generated: r[10] == "ALWAYS", computed: r[10] == "ALWAYS"}
		c.Kind = mariaKind(r[2], c.Decl, slices.Contains(checks, "json_valid("+backticked(Quote(c.Name))+")") || slices.Contains(checks, "json_valid("+Quote(c.Name)+")"))
		switch c.Kind {
		case Text, Document:
			if c.Length = int(min(Atoi(r[5]), 1<<30)); strings.HasSuffix(r[2], "text") {
				c.Length = int(min(Atoi(r[6])/4, 1<<28)) // its length is limited in bytes
			}
		case Blob:
			c.Length = int(min(2*Atoi(r[6]), 1<<30)) // the length is in hexadecimal digits
		case Instant, Stamp:
			c.step = stepOf(int(Atoi(r[7])))
		}
		t.Columns = append(t.Columns, c)
	}
	return err
}

var mariaTime = regexp.MustCompile(`(?i)^current_timestamp(\(\d*\))?$`)

// mariaDefault is a column's default as the other databases write it.
func mariaDefault(def string) string {
	switch {
	case mariaTime.MatchString(def):
		return "now()"
	case strings.EqualFold(def, "null"):
		return ""
	}
	return def
}
