package adopted

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Find finds a table by its name in a mapping. Without a schema in the name it searches only the schemas of the
// session's search path. With anywhere, which serves to make a mapping, it searches all schemas. If there is no such
// table, the error names similar ones.
func Find(ctx context.Context, q Querier, d Dialect, full string, anywhere bool) (*Table, error) {
	schema, name := splitName(full)
	on, err := d.lookUp(ctx, q, schema, name)
	if err != nil {
		return nil, err
	}
	called := joinName(schema, name)
	if on == nil {
		if called, err = oneLike(ctx, q, d, full, anywhere); err != nil {
			return nil, err
		}
		schema, name = splitName(called)
		if on, err = d.lookUp(ctx, q, schema, name); err != nil {
			return nil, err
		}
	}
	switch {
	case on == nil: // the table has just been dropped
		return nil, Invalid("table", "there is no table %q in this database", full)
	case on.view:
		return nil, Invalid("table", "%s is not an ordinary table: rows of a view have no key; name the table that it reads%s, and write the view's condition as \"where\"", full, beneathIt(on.beneath))
	case on.unfit != "":
		return nil, Invalid("table", "%s %s", full, on.unfit)
	}
	on.Called = called
	return on, nil
}

// oneLike finds the one table whose name differs only in case, or also in SQL Server's schema dbo, which
// other databases do not have.
func oneLike(ctx context.Context, q Querier, d Dialect, full string, anywhere bool) (string, error) {
	schema, name := splitName(full)
	rows, err := QueryAll(ctx, q, d.alike, name)
	if err != nil {
		return "", err
	}
	var like []string
	for dbo := strings.EqualFold(schema, "dbo"); ; schema, dbo = "", false {
		for _, r := range rows { // columns: schema, name, and whether the schema is in the search path
			visible := Yes(r[2])
			switch {
			case schema != "" && !strings.EqualFold(schema, r[0]), schema == "" && !visible && !anywhere:
				continue
			case visible && schema == "":
				r[0] = ""
			}
			like = append(like, joinName(r[0], r[1]))
		}
		if len(like) > 0 || !dbo {
			break
		}
	}
	switch len(like) {
	case 1:
		return like[0], nil
	case 0:
		rows, err := QueryAll(ctx, q, d.Tables)
		if err != nil {
			return "", err
		}
		return "", Invalid("table", "there is no table %q in this database%s", full, didYouMean(full, rows))
	}
	return "", Invalid("table", "%q may be any of these tables: write one of them exactly so: %s", full, strings.Join(like, ", "))
}

func beneathIt(tables []string) string {
	if len(tables) != 1 {
		return ""
	}
	return ", " + tables[0]
}

// didYouMean names up to three tables with similar names, the most similar first. If there
// are none, it lists all tables, or counts them if there are many.
func didYouMean(full string, tables [][]string) string {
	_, name := splitName(strings.ToLower(full))
	var like [3][]string // same name in another schema or case; one name contains the other; a few letters differ
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

// distance counts the letters that must be changed, added, removed or swapped with the next
// to turn a into b.
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

// closing maps the sign that opens a quoted name to the one that closes it.
var closing = map[byte]byte{'"': '"', '[': ']', '`': '`'}

// splitName splits SCHEMA.NAME. Both parts may be quoted: "name", [name] or `name`.
func splitName(table string) (schema, name string) {
	first, rest, ok := unquote(table)
	switch {
	case ok && rest == "":
		return "", first
	case ok && rest[0] == '.':
		if name, rest, ok := unquote(rest[1:]); ok && rest == "" {
			return first, name
		}
		return first, rest[1:]
	}
	if schema, rest, ok := strings.Cut(table, "."); ok {
		if name, left, ok := unquote(rest); ok && left == "" {
			return schema, name
		}
		return schema, rest
	}
	return "", table
}

// unquote splits off a quoted name at the beginning.
func unquote(s string) (name, rest string, ok bool) {
	if s == "" || closing[s[0]] == 0 {
		return "", s, false
	}
	end := closing[s[0]]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != end:
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == end: // a doubled quote stands for one
			b.WriteByte(end)
			i++
		default:
			return b.String(), s[i+1:], true
		}
	}
	return "", s, false
}

// joinName is the inverse of splitName. The schema may be empty.
func joinName(schema, name string) string {
	if schema != "" {
		schema = asPart(schema) + "."
	}
	return schema + asPart(name)
}

// asPart quotes a name that splitName would not read as one.
func asPart(name string) string {
	if name == "" || closing[name[0]] != 0 || strings.Contains(name, ".") {
		return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return name
}
