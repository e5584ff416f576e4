package adopt_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/internal/adopted"
	"github.com/dibs-queue/dibs/internal/lab/history"
)

// evidence holds what a run has recorded, and what is in the database after it.
type evidence struct {
	history.Evidence
	rows    []int64         // ids of the rows in the table at the end
	rank    map[int64]place // places in the claim order of the rows that were there at the start
	touched map[int64]bool  // rows that another program has changed during the run
	killed  int             // number of killed processes

	taken              int // number of rows that the table's own worker has ended
	recovered, refused int // number of rows of killed processes that others claimed; number of refused outcomes
}

// judge reports the faults that package history finds, and also:
//
//   - a row that has not ended;
//   - first attempts out of the mapping's order;
//   - a call that failed.
func (e *evidence) judge(report func(format string, args ...any)) {
	for _, line := range history.Broken(history.Owned(e.Evidence)) {
		report("%s", line)
	}
	recovered, _ := history.Recoveries(e.Evidence)
	e.recovered = len(recovered)
	for _, id := range e.rows {
		if e.Effects[id] == 0 {
			report("row %d has not ended", id)
		}
	}
	for _, c := range e.Calls {
		if c.Verb == history.Finish {
			e.refused += len(c.Refused)
		}
		slow := strings.Contains(c.Error, "context deadline exceeded") || strings.Contains(c.Error, "context canceled") || strings.Contains(c.Error, "i/o timeout") ||
			strings.Contains(c.Error, "bad connection") // one that a slow call has left behind
		if c.Error != "" && c.Fate != history.Done && c.Verb != history.Ended && !slow {
			report("%s: %s: %s", c.Client, c.Verb, c.Error)
		}
	}
	e.judgeOrder(report)
}

// judgeOrder checks that the first attempts of a process, and those of a group, follow the
// mapping's order. It allows for rows that a killed process had locked or claimed without
// recording it: they come late.
func (e *evidence) judgeOrder(report func(string, ...any)) {
	late, allowed := 0, 40*e.killed // a worker claims at most twice as many rows as it has handlers
	seen, at := map[int64]bool{}, map[string]place{}
	calls := slices.Clone(e.Calls)
	slices.SortStableFunc(calls, func(a, b *history.Call) int { return a.End.Compare(b.End) })
	for _, c := range calls {
		for _, j := range c.Jobs {
			p, there := e.rank[j.ID]
			if seen[j.ID] || !there || e.touched[j.ID] {
				continue
			}
			seen[j.ID] = true
			lane := cmp.Or(p.group, "in "+c.Client)
			if before, ok := at[lane]; ok && before.rank > p.rank {
				if late++; late > allowed {
					report("row %d came after a row that is behind it (%s)", j.ID, lane)
				}
				continue
			}
			at[lane] = p
		}
	}
}

// gather reads the records of the processes and of the database's triggers.
func (f *fleet) gather(t *testing.T) *evidence {
	t.Helper()
	e := &evidence{killed: f.crew.Replaced(), touched: map[int64]bool{}, rank: map[int64]place{}}
	e.Effects, e.Slack, e.LeaseSlack, e.ReleasesCount = map[int64]int{}, slack, slack, adopted.ReleasesCount(f.m)
	var err error
	if e.Calls, err = history.Read(f.dir); err != nil {
		t.Fatal(err)
	}
	if e.Queues, err = f.store.Queues(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range f.ids(t, "select id from ended") {
		e.Effects[id]++
	}
	e.rows = f.ids(t, fmt.Sprintf("select %s from %s where %s", f.key("", f.kind), f.table, f.meant("1 = 1")))
	return e
}

// ids returns the job ids of the rows whose ids a query returns.
func (f *fleet) ids(t *testing.T, query string) (ids []int64) {
	t.Helper()
	rows, err := f.db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, f.id(t, name))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

func (f *fleet) id(t *testing.T, name string) int64 {
	t.Helper()
	id, err := f.store.ID(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
