package advice

import (
	"context"
	"fmt"
	"strings"

	"github.com/dibs-queue/dibs/adopt"
	"github.com/dibs-queue/dibs/internal/adopted"
)

// Ended reports rows that have ended as dead by what the mapping sets then: how many of which kinds, and the SQL that shows
// them. It counts up to 1,000 rows, and gives up after half a second.
func Ended(ctx context.Context, s *adopt.Store) ([]Finding, error) {
	p, db := s.Inside()
	c := &checker{db: db, queue: s.Queue(), p: subjectOf(p), limit: stuckTime}
	where := p.EndedDead()
	if where == "" {
		return nil, nil
	}
	kind := "''"
	if p.Kind != "" {
		kind = p.KindColumn.SQL()
	}
	rows, ok, err := c.ask(ctx, "dead", fmt.Sprintf("select x.kind, count(*) from (select %s as kind from %s t where %s limit %d) x group by x.kind order by 2 desc, 1", kind, p.Table, where, maxCount))
	if err != nil || !ok || len(rows) == 0 {
		return c.found, adopted.Classify("look for dead rows", err)
	}
	const named = 3
	var kinds []string
	all := int64(0)
	for i, r := range rows {
		if all += adopted.Atoi(r[1]); i < named && p.Kind != "" {
			kinds = append(kinds, fmt.Sprintf("%.40q %s", r[0], r[1]))
		}
	}
	text := "%s rows have ended as dead"
	if all == 1 {
		text = "%s row has ended as dead"
	}
	if len(kinds) > 0 {
		text += ", by kind: " + strings.ReplaceAll(strings.Join(kinds, ", "), "%", "%%")
	}
	if more := len(rows) - named; more > 0 && p.Kind != "" {
		text += fmt.Sprintf(" and %d other kinds", more)
	}
	c.add(SeverityNote, "dead", p.Dialect.Qualified("select t.* from "+p.Table+" as t where "+where+" limit 100"), text, atMost(all))
	return c.found, nil
}
