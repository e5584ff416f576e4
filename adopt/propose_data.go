package adopt

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

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

func (p *proposer) lookAtData(ctx context.Context, db *sql.DB) (data, error) {
	d, on := p.d, p.on
	all := data{
		filled: map[string]int64{}, values: map[string][]string{},
		sample: map[string]string{}, json: map[string]bool{},
	}
	var err error
	if all.allowed, err = p.of.allowed(ctx, db, on); err != nil {
		return all, err
	}
	for _, c := range on.columns {
		for _, x := range on.indexes {
			all.allowed[c.name] = append(all.allowed[c.name], all.indexed(x, c)...)
		}
	}
	names, exprs := make([]string, len(on.columns)), make([]string, len(on.columns))
	for i, c := range on.columns {
		names[i] = c.name
		exprs[i] = "substr(" + d.asText(c.sql()) + ", 1, 10000)"
		if c.kind == blob { // which is not text
			exprs[i] = "case when " + c.sql() + " is null then null else '' end"
		}
	}
	from := quote(on.schema) + "." + quote(on.name)
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
