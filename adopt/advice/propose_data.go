package advice

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// data summarizes some rows of a table.
type data struct {
	rows    int64
	filled  map[string]int64    // number of rows in which the column is not null
	values  map[string][]string // different values of the column, if they are few
	allowed map[string][]string // values that types, check constraints and partial indexes name
	sample  map[string]string   // one value of the column
	json    map[string]bool     // whether all values of the column are JSON
}

const proposeRows = 5000 // most rows that a proposal reads

// lookAtData summarizes the first rows of the table.
func (p *proposer) lookAtData(ctx context.Context) {
	p.data = data{
		filled: map[string]int64{}, values: map[string][]string{},
		sample: map[string]string{}, json: map[string]bool{},
	}
	if p.data.allowed, p.err = p.database.allowed(ctx, p.db, p.table); p.err != nil {
		return
	}
	names, exprs := make([]string, len(p.table.Columns)), make([]string, len(p.table.Columns))
	for i, c := range p.table.Columns {
		for _, x := range p.table.Indexes {
			p.data.allowed[c.Name] = append(p.data.allowed[c.Name], indexed(x, c)...)
		}
		names[i] = c.Name
		exprs[i] = "substr(" + p.dialect.AsText(c.SQL()) + ", 1, 10000)"
		if c.Kind == adopted.Blob { // bytes cannot be read as text
			exprs[i] = "case when " + c.SQL() + " is null then null else '' end"
		}
	}
	for _, r := range p.look(ctx, "select %s from %s t limit %d", strings.Join(exprs, ", "), p.table.Quoted(), proposeRows) {
		p.data.add(names, r)
	}
}

// indexed lists the values with which the condition of a partial index compares a column.
func indexed(x adopted.Index, c adopted.Column) (values []string) {
	of := regexp.MustCompile(`["'\x60\[(]*\b` + regexp.QuoteMeta(c.Name) + `\b["'\x60\])]*(?:::\w+)?\)?\s*=\s*('[^']*'|\d+)`)
	for _, m := range of.FindAllStringSubmatch(x.Where, -1) {
		values = append(values, strings.Trim(m[1], "'"))
	}
	return values
}

// add counts one row, in which nulls are empty strings.
func (d *data) add(names, row []string) {
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

// hasOnly reports whether a column has values, and no others than these.
func (d *data) hasOnly(name string, values ...string) bool {
	have := d.values[name]
	return len(have) > 0 && !slices.ContainsFunc(have, func(v string) bool { return !slices.Contains(values, v) })
}

// differ reports whether two columns are filled in different numbers of rows.
func (d *data) differ(a, b *adopted.Column) bool { return d.filled[a.Name] != d.filled[b.Name] }
