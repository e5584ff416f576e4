package adopt

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/qualify"
)

// data is what some rows of a table hold.
type data struct {
	rows    int64
	filled  map[string]int64    // rows where a column is not null
	values  map[string][]string // of columns with few different ones
	allowed map[string][]string // by checks and types, whether a row has them or not
	sample  map[string]string   // one value of a column
	json    map[string]bool     // all that was seen was JSON
}

const proposeRows = 5000 // rows that are looked at

func lookAtData(ctx context.Context, db *sql.DB, d dialect, on *table) (data, error) {
	all := data{
		filled: map[string]int64{}, values: map[string][]string{},
		sample: map[string]string{}, json: map[string]bool{},
	}
	var err error
	if all.allowed, err = d.allowed(ctx, db, on); err != nil {
		return all, err
	}
	for _, c := range on.columns {
		for _, x := range on.indexes {
			all.allowed[c.name] = append(all.allowed[c.name], all.indexed(x, c)...)
		}
	}
	p := &plan{d: d, on: on}
	names, exprs := make([]string, len(on.columns)), make([]string, len(on.columns))
	for i, c := range on.columns {
		names[i] = c.name
		exprs[i] = "substr(" + d.text(p.col(c)) + ", 1, 10000)"
		if c.kind == blob { // which is not text
			exprs[i] = "case when " + p.col(c) + " is null then null else '' end"
		}
	}
	from := d.quote(on.schema) + "." + d.quote(on.name)
	err = d.peek(ctx, db, checkTime, func(q querier) error {
		rows, err := queryAll(ctx, q, d.qualified("select "+strings.Join(exprs, ", ")+fmt.Sprintf(" from %s t limit %d", from, proposeRows)))
		for _, r := range rows {
			all.see(names, r)
		}
		return err
	})
	if tooLong(err) {
		err = nil
	}
	return all, err
}

// indexed are the values of a column that an index is for.
func (*data) indexed(x index, c column) (values []string) {
	of := regexp.MustCompile(`["'\x60\[(]*\b` + regexp.QuoteMeta(c.name) + `\b["'\x60\])]*(?:::\w+)?\)?\s*=\s*('[^']*'|\d+)`)
	for _, m := range of.FindAllStringSubmatch(x.where, -1) {
		values = append(values, strings.Trim(m[1], "'"))
	}
	return values
}

// see takes note of one row. Nulls are empty there.
func (d *data) see(names, row []string) {
	d.rows++
	for i, v := range row {
		name := names[i]
		if v == "" {
			continue
		}
		d.filled[name]++
		d.sample[name] = v
		if _, seen := d.json[name]; !seen {
			d.json[name] = true
		}
		d.json[name] = d.json[name] && json.Valid([]byte(v)) && strings.ContainsAny(v[:1], "{[\"")
		if have := d.values[name]; len(have) <= mostValues && !slices.Contains(have, v) {
			d.values[name] = append(have, v)
		}
	}
}

// only reports whether a column has been seen with these values alone.
func (d *data) only(name string, values ...string) bool {
	have := d.values[name]
	return len(have) > 0 && !slices.ContainsFunc(have, func(v string) bool { return !slices.Contains(values, v) })
}

// differ reports whether one of two columns is filled more often than the other.
func (d *data) differ(a, b *column) bool { return d.filled[a.name] != d.filled[b.name] }

var postgresAllowed = qualify.Text(`
select a.attname, e.enumlabel
from pg_attribute a
join pg_enum e on e.enumtypid = a.atttypid
where a.attrelid = $1::bigint::oid
union all
select a.attname, m[1]
from pg_constraint k
join pg_attribute a on a.attrelid = k.conrelid and k.conkey = array[a.attnum]
cross join regexp_matches(pg_get_constraintdef(k.oid), '''([^'']+)''', 'g') m
where k.conrelid = $1::bigint::oid and k.contype = 'c'`)

func (postgresDialect) allowed(ctx context.Context, q querier, on *table) (map[string][]string, error) {
	rows, err := queryAll(ctx, q, postgresAllowed, on.id)
	all := map[string][]string{}
	for _, r := range rows {
		all[r[0]] = append(all[r[0]], r[1])
	}
	return all, err
}

var listed = regexp.MustCompile(`(?i)["'\x60\[]?([\pL_][\pL\pN_]*)["'\x60\]]?\s+in\s*\(([^()]*)\)`)

func (s sqliteDialect) allowed(ctx context.Context, q querier, on *table) (map[string][]string, error) {
	rows, err := queryAll(ctx, q, "select sql from "+s.quote(on.schema)+".sqlite_schema where type = 'table' and name = ?", on.name)
	all := map[string][]string{}
	for _, r := range rows {
		for _, m := range listed.FindAllStringSubmatch(r[0], -1) {
			for v := range strings.SplitSeq(m[2], ",") {
				all[m[1]] = append(all[m[1]], strings.Trim(strings.TrimSpace(v), "'"))
			}
		}
	}
	return all, err
}

func (postgresDialect) timesOf(c column, sample string) (f TimeFormat, sure bool) {
	switch {
	case c.kind == integer:
		return numberTimes(sample)
	case strings.Contains(strings.ToLower(c.def), "utc"):
		return TimesUTC, true
	}
	return TimesLocal, false
}

func (sqliteDialect) timesOf(c column, sample string) (f TimeFormat, sure bool) {
	def := strings.ToLower(c.def)
	second := regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`)
	switch {
	case second.MatchString(sample):
		return TimesSeconds, true
	case len(sample) == 23 && sample[10] == ' ' && second.MatchString(sample[:19]):
		return TimesMillis, true
	case strings.HasSuffix(sample, "Z") && strings.Contains(sample, "T"):
		return TimesISO, true
	case sample != "":
		return numberTimes(sample)
	case strings.Contains(def, "unixepoch") || strings.Contains(def, "%s'"):
		return TimesUnix, true
	case strings.Contains(def, "t%h"):
		return TimesISO, true
	case strings.Contains(def, "%f"):
		return TimesMillis, true
	case strings.Contains(def, "current_timestamp") || strings.Contains(def, "datetime("):
		return TimesSeconds, true
	}
	return "", false
}

func numberTimes(sample string) (TimeFormat, bool) {
	switch n := atoi(sample); {
	case n > 1e11:
		return TimesUnixMS, true
	case n > 1e8:
		return TimesUnix, true
	}
	return "", false
}

// Tables lists the tables of the database that begin so, for the shell's completion.
func Tables(ctx context.Context, db *sql.DB, begin string) ([]string, error) {
	d, err := dialectOf(ctx, db)
	if err != nil {
		return nil, classify("list tables", err)
	}
	rows, err := queryAll(ctx, db, d.tables())
	var names []string
	for _, r := range rows {
		if strings.HasPrefix(r[0], begin) {
			names = append(names, r[0])
		}
	}
	return names, classify("list tables", err)
}

func (postgresDialect) tables() string {
	return qualify.Text(`
select case when pg_table_is_visible(c.oid) then c.relname else n.nspname || '.' || c.relname end
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not n.nspname in ('pg_catalog', 'information_schema') and c.relname <> 'dibs_adopted'
order by 1
limit 1000`)
}

func (sqliteDialect) tables() string {
	return `
select name
from sqlite_schema
where type = 'table' and name not like 'sqlite!_%' escape '!' and name <> 'dibs_adopted'
order by name
limit 1000`
}
