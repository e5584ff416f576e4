package torture

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/qualify"
)

// The torture makes new rows of the copy from existing ones, with new ids. So the copy has no
// unique index except that of the id. Partial unique indexes stay, since such an index may
// be what allows only one running row of a group.

// dropUnique drops, on PostgreSQL, the unique indexes that do not contain the id.
func (c *Copy) dropUnique(ctx context.Context, table string) error {
	drops, err := textRows(c.SQL.QueryContext(ctx, qualify.Text(`
select case when con.conname is null then format('drop index %I.%I', $3::text, i.relname)
    else format('alter table %s drop constraint %I', $1::text, con.conname) end
from pg_index x
join pg_class i on i.oid = x.indexrelid
left join pg_constraint con on con.conindid = x.indexrelid and con.conrelid = x.indrelid
where x.indrelid = $1::text::regclass
and x.indisunique
and x.indpred is null
and not exists (
    select 1 from pg_attribute a
    where a.attrelid = x.indrelid and a.attname = $2::text and a.attnum = any ((x.indkey::int2[])[0:x.indnkeyatts - 1])
)`), table, c.M.ID[0], c.schema))
	for _, drop := range drops {
		if _, err := c.SQL.ExecContext(ctx, drop); err != nil {
			return err
		}
	}
	return err
}

// findUnique returns, on SQLite, the unique indexes that the copy leaves out. For each one that
// is part of the table's definition, it adds a column to Unique instead.
func (c *Copy) findUnique(ctx context.Context, original *sql.DB, table string) (dropped []string, err error) {
	found, err := textRows(original.QueryContext(ctx, `
select json_object('name', l.name, 'apart', l.origin = 'c', 'columns', json((select json_group_array(i.name) from pragma_index_info(l.name) as i)))
from pragma_index_list(?1) as l
where l."unique" and not l.partial and l.origin <> 'pk'
and not exists (select 1 from pragma_index_info(l.name) as i where lower(i.name) = lower(?2))
union all
select json_object('columns', json((select json_group_array(name) from pragma_table_info(?1) where pk > 0)))
where exists (select 1 from pragma_table_info(?1) where pk > 0)
and not exists (select 1 from pragma_table_info(?1) where pk > 0 and lower(name) = lower(?2))`, table, c.M.ID[0]))
	for _, text := range found {
		var index struct {
			Name    string
			Apart   int // 1: made by create index, not by the table's definition
			Columns []string
		}
		if err := json.Unmarshal([]byte(text), &index); err != nil {
			return nil, err
		}
		if index.Apart == 1 {
			dropped = append(dropped, index.Name)
			continue
		}
		c.Unique = append(c.Unique, c.leastUsed(index.Columns))
	}
	return dropped, err
}

// leastUsed returns the last column that the mapping does not use, or the last of all.
func (c *Copy) leastUsed(columns []string) string {
	used := []string{c.M.Group.Column, c.M.Kind}
	for _, o := range c.M.Order {
		used = append(used, strings.Fields(o)[0])
	}
	for _, name := range slices.Backward(columns) {
		if !slices.Contains(used, name) {
			return name
		}
	}
	return columns[len(columns)-1]
}

// textRows returns the rows of one text column.
func textRows(rows *sql.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	all, err := []string{}, error(nil)
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		all = append(all, text)
	}
	return all, errors.Join(err, rows.Err(), rows.Close())
}
