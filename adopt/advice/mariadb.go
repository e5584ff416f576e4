package advice

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/adopt/mapping"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// mariadb implements questions for MariaDB.
type mariadb struct{}

// mariaReads counts the rows that a session has read.
const mariaReads = `
select sum(variable_value)
from information_schema.session_status
where variable_name in ('HANDLER_READ_FIRST', 'HANDLER_READ_KEY', 'HANDLER_READ_LAST', 'HANDLER_READ_NEXT', 'HANDLER_READ_PREV', 'HANDLER_READ_RND_NEXT')`

// claim finds the rows of a claim, and counts those that this reads. Then it asks for each index whether the server reads by it
// without sorting.
func (mariadb) claim(ctx context.Context, q adopted.Querier, p *adopted.Plan) (claimRun, error) {
	st := p.Do.Turn // finds the rows, if there are groups
	if st == nil {
		st = p.Do.Claim.Parts[0]
	}
	counted := func() (int64, error) {
		n, err := adopted.FirstOf(adopted.QueryAll(ctx, q, mariaReads))
		if err != nil {
			return 0, err
		}
		return adopted.Atoi(strings.TrimSuffix(n[0], ".0")), nil
	}
	before, err := counted()
	if err != nil {
		return claimRun{}, err
	}
	itself, err := counted()
	if err == nil {
		_, err = adopted.QueryAll(ctx, q, st.Text, st.Args(p.OneClaim())...)
	}
	if err != nil {
		return claimRun{}, err
	}
	after, err := counted()
	run := claimRun{rows: max(0, (after-itself)-(itself-before))}
	table := p.Dialect.Qualified(p.Table) + " t\n"
	for _, x := range p.On.Indexes {
		if err != nil || run.index != "" {
			break
		}
		hint := strings.TrimSuffix(table, "\n") + " force index (" + p.Dialect.Quoted(x.Name) + ")\n"
		steps, e := adopted.QueryAll(ctx, q, "explain "+strings.Replace(st.Text, table, hint, 1), st.Args(p.OneClaim())...)
		if err = e; mariaServes(steps, x.Name) {
			run.index = x.Name
		}
	}
	return run, err
}

// mariaServes reports whether a plan reads the adopted table by an index, neither all of it nor to sort what it finds.
func mariaServes(steps [][]string, index string) bool {
	for _, step := range steps { // columns: id, select_type, table, type, possible_keys, key, key_len, ref, rows, Extra
		if len(step) == 10 && step[2] == "t" && step[5] == index {
			return step[3] != "ALL" && step[3] != "index" && !strings.Contains(step[9], "filesort") && !strings.Contains(step[9], "temporary")
		}
	}
	return false
}

func (mariadb) locks(_ context.Context, _ adopted.Querier, on *adopted.Table, n int) ([]string, error) {
	all := []string{"table " + on.Name + ": stops only DROP and ALTER TABLE", "with groups or a limit, a lock of the server for each (get_lock): other claims do not wait, but skip the groups, or try again later"}
	if n > 0 {
		all = append(all, fmt.Sprintf("%d rows of %s, FOR UPDATE: other claims skip them; other programs that change them wait", n, on.Name))
	}
	return all, nil
}

const mariaAllowed = `
select check_clause
from information_schema.check_constraints
where constraint_schema = ? and table_name = ?`

var quotedValue = regexp.MustCompile(`'((?:[^']|'')*)'`)

func (mariadb) allowed(ctx context.Context, q adopted.Querier, on *adopted.Table) (map[string][]string, error) {
	all := map[string][]string{}
	for _, c := range on.Columns {
		if !strings.HasPrefix(c.Decl, "enum(") {
			continue
		}
		for _, m := range quotedValue.FindAllStringSubmatch(c.Decl, -1) {
			all[c.Name] = append(all[c.Name], strings.ReplaceAll(m[1], "''", "'"))
		}
	}
	clauses, err := adopted.FirstOf(adopted.QueryAll(ctx, q, mariaAllowed, on.Schema, on.Name))
	for _, clause := range clauses {
		for _, m := range listed.FindAllStringSubmatch(clause, -1) {
			for v := range strings.SplitSeq(m[2], ",") {
				all[m[1]] = append(all[m[1]], strings.Trim(strings.TrimSpace(v), "'"))
			}
		}
	}
	return all, err
}

func (mariadb) timesOf(c adopted.Column, sample string) (f mapping.TimeFormat, sure bool) {
	switch {
	case c.Kind == adopted.Integer:
		return numberTimes(sample)
	case slices.ContainsFunc(words(c.Name), func(w string) bool { return w == "utc" || w == "gmt" }), strings.Contains(strings.ToLower(c.Def), "utc"):
		return mapping.TimesUTC, true
	}
	return mapping.TimesLocal, false
}

func (mariadb) odd(c adopted.Column, f mapping.TimeFormat, expr string) string {
	if c.Kind == adopted.Integer {
		return oddNumber(f, expr)
	}
	return ""
}
