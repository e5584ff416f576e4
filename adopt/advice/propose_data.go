package advice

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// data is what some rows of a table hold.
type data struct {
	rows    int64
	filled  map[string]int64    // rows where a column is not null
	values  map[string][]string // the different values of a column, if they are few
	allowed map[string][]string // the values that checks and types allow, used or not
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
	for _, c := range on.Columns {
		for _, x := range on.Indexes {
			all.allowed[c.Name] = append(all.allowed[c.Name], all.indexed(x, c)...)
		}
	}
	names, exprs := make([]string, len(on.Columns)), make([]string, len(on.Columns))
	for i, c := range on.Columns {
		names[i] = c.Name
		exprs[i] = "substr(" + d.AsText(c.SQL()) + ", 1, 10000)"
		if c.Kind == adopted.Blob { // bytes are no text
			exprs[i] = "case when " + c.SQL() + " is null then null else '' end"
		}
	}
	rows, err := d.Look(ctx, db, checkTime, fmt.Sprintf("select %s from %s t limit %d", strings.Join(exprs, ", "), on.Quoted(), proposeRows), nil)
	if err != nil && !adopted.TooLong(err) {
		return all, err
	}
	for _, r := range rows {
		all.see(names, r)
	}
	return all, nil
}

// indexed are the values of a column that an index is for.
func (*data) indexed(x adopted.Index, c adopted.Column) (values []string) {
	of := regexp.MustCompile(`["'\x60\[(]*\b` + regexp.QuoteMeta(c.Name) + `\b["'\x60\])]*(?:::\w+)?\)?\s*=\s*('[^']*'|\d+)`)
	for _, m := range of.FindAllStringSubmatch(x.Where, -1) {
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
func (d *data) differ(a, b *adopted.Column) bool { return d.filled[a.Name] != d.filled[b.Name] }
