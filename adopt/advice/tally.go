package advice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-queue/dibs/internal/adopted"
)

// tally counts the rows that have one value of a column.
type tally struct {
	value string
	null  bool
	rows  int64
	ended int64 // number of these rows in which another column is set too
}

// mostValues limits how many different values a status has: a column with more is no status.
const mostValues = 50

// tallySQL is a query for the tallies of an expression, the most frequent value first, null last. from is the rest of a
// statement after the word from, with a limit.
func tallySQL(value, second, from string) string {
	return fmt.Sprintf("select v, case when v is null then 1 else 0 end, count(*), count(e) from (select %s as v, %s as e from %s) x group by v order by 2, 3 desc, v limit %d",
		value, second, from, mostValues+1)
}

// talliesOf reads the rows of tallySQL; ok is false if there are too many values for a status.
func talliesOf(rows [][]string) (all []tally, ok bool) {
	for _, r := range rows {
		all = append(all, tally{r[0], adopted.Yes(r[1]), adopted.Atoi(r[2]), adopted.Atoi(r[3])})
	}
	return all, len(rows) <= mostValues
}

// which returns the tallies that keep accepts.
func which(all []tally, keep func(tally) bool) []tally {
	return slices.DeleteFunc(slices.Clone(all), func(t tally) bool { return !keep(t) })
}

// allRows is the number of all rows of a tally, for withCounts.
func allRows(t tally) int64 { return t.rows }

// withCounts writes each value with the number that rows gives for it. It leaves out values with the number 0.
func withCounts(all []tally, rows func(tally) int64) string {
	var parts []string
	for _, t := range all {
		switch n := rows(t); {
		case n == 0:
		case t.null:
			parts = append(parts, fmt.Sprintf("null (%d)", n))
		default:
			parts = append(parts, fmt.Sprintf("%.40q (%d)", t.value, n))
		}
	}
	return strings.Join(parts, ", ")
}
