package adopt

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// find looks a table up by the name that a mapping gives it. What is no table is an
// error that names those that may be meant.
func find(ctx context.Context, q querier, d dialect, full string) (*table, error) {
	schema, name := splitName(full)
	on, err := d.lookUp(ctx, q, schema, name)
	switch {
	case err != nil:
		return nil, err
	case on == nil:
		rows, err := queryAll(ctx, q, d.tables())
		if err != nil {
			return nil, err
		}
		return nil, invalid("table", "there is no table %q in this database%s", full, didYouMean(full, rows))
	case on.view:
		beneath, err := d.beneath(ctx, q, on)
		if err != nil {
			return nil, err
		}
		return nil, invalid("table", "%s is not an ordinary table: rows of a view cannot be locked; name the table beneath%s", full, beneathIt(beneath))
	}
	return on, nil
}

func beneathIt(tables []string) string {
	if len(tables) != 1 {
		return ""
	}
	return ", " + tables[0]
}

// didYouMean names up to three tables whose names are like it, the most alike first, or
// those that there are, if they are few.
func didYouMean(full string, tables [][]string) string {
	_, name := splitName(strings.ToLower(full))
	var like [3][]string // the same in another schema or case; a part; a few letters away
	for _, t := range tables {
		_, other := splitName(strings.ToLower(t[0]))
		switch {
		case other == name:
			like[0] = append(like[0], t[0])
		case len(name) > 2 && (strings.Contains(other, name) || strings.Contains(name, other) && len(other) > 2):
			like[1] = append(like[1], t[0])
		case distance(name, other) <= 2 && len(name) > 3:
			like[2] = append(like[2], t[0])
		}
	}
	all := slices.Concat(like[0], like[2], like[1])
	switch {
	case len(tables) == 0:
		return ", nor any other"
	case len(all) == 0 && len(tables) > 9:
		return fmt.Sprintf(", which has %d others", len(tables))
	case len(all) == 0:
		return "; it has " + strings.Join(slices.Concat(tables...), ", ")
	}
	return "; did you mean " + strings.Join(all[:min(len(all), 3)], " or ") + "?"
}

// distance is how many letters must be changed, added, left out or swapped with the
// next to make a of b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	d := make([][]int, len(x)+1)
	for i := range d {
		d[i] = make([]int, len(y)+1)
		for j := range d[i] {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
				continue
			case x[i-1] == y[j-1]:
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j-1], d[i-1][j], d[i][j-1])
			}
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d[i][j] = min(d[i][j], 1+d[i-2][j-2])
			}
		}
	}
	return d[len(x)][len(y)]
}

const postgresBeneath = `
select distinct case when pg_table_is_visible(c.oid) then c.relname else n.nspname || '.' || c.relname end
from pg_rewrite w
join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_class'::regclass
join pg_class c on c.oid = d.refobjid and c.oid <> w.ev_class and c.relkind in ('r', 'p', 'v', 'm', 'f')
join pg_namespace n on n.oid = c.relnamespace
where w.ev_class = $1::bigint::oid
order by 1`

// beneath names the tables that a view reads.
func (postgresDialect) beneath(ctx context.Context, q querier, view *table) ([]string, error) {
	return firstOf(queryAll(ctx, q, postgresBeneath, view.id))
}

var afterFrom = regexp.MustCompile("(?i)\\b(?:from|join)\\s+[\"'`\\[]?([\\pL_][\\pL\\pN_]*)")

var fromSeveral = regexp.MustCompile(`(?i)\bfrom\s+\S+(\s+(as\s+)?\w+)?\s*,`)

// beneath names the table of a view that reads one: SQLite keeps no list of them.
func (s sqliteDialect) beneath(ctx context.Context, q querier, view *table) ([]string, error) {
	text, err := firstOf(queryAll(ctx, q, "select sql from "+s.quote(view.schema)+".sqlite_schema where type = 'view' and name = ?", view.name))
	if err != nil || len(text) == 0 || fromSeveral.MatchString(text[0]) {
		return nil, err
	}
	tables, err := firstOf(queryAll(ctx, q, s.tables()))
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

// firstOf is the first column.
func firstOf(rows [][]string, err error) (all []string, _ error) {
	for _, r := range rows {
		all = append(all, r[0])
	}
	return all, err
}
