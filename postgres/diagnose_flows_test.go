package postgres

import (
	"testing"

	"github.com/dibs-queue/dibs/admin"
)

// However many jobs wait for others, are kept for others or have ended unseen, few of them are read, and those that
// count are found: what stays open is the first that is read.
func TestDiagnosingFlowsReadsABoundedNumberOfRows(t *testing.T) {
	t.Parallel()
	s := migrated(t)
	read := countReads(t, s)
	for _, text := range []string{
		"insert into dibs.queue (name) values ('pages'), ('books')",
		// Job 1 has 20,000 followers, of which the last one also waits for 20,000 jobs.
		`insert into dibs.job (id, run_at, created_at, max_attempts, priority, gate, queue, kind, payload, followed)
		select 1, now(), now(), 1, 1, 0, 'pages', 'render', '1', true
		union all
		select i, now(), now(), 1, 1, 5, 'books', 'bind', '1', false from generate_series(2, 20001) i
		union all
		select i, now(), now(), 1, 1, 0, 'pages', 'print', '1', true from generate_series(30001, 50000) i`,
		`insert into dibs.edge (child, parent, need, open)
		select i, 1, 'completed', true from generate_series(2, 20001) i
		union all
		select 20001, i, 'completed', true from generate_series(30001, 50000) i
		union all
		select 2, - i, 'ended', false from generate_series(1, 20000) i
		union all
		select i, - 1, 'ended', false from generate_series(3, 20001) i`,
		`insert into dibs.finished (id, state, finished_at, run_at, created_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload, followed)
		select - i, 'completed', now() - interval '1 year' - interval '1 minute' * i, now(), now(), 1, 0, 1, 1, false, 'pages', 'k', '1', true from generate_series(1, 20000) i`,
		`insert into dibs.ended_list (ids) select array(select - n from generate_series(1, 1000) n) from generate_series(1, 2000)`,
		"analyze",
	} {
		if _, err := s.pool.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	tables := map[string]int{"dibs.job": 1500, "dibs.edge": 3000, "dibs.finished": 1500, "dibs.ended_list": 150}
	before := map[string]int{}
	for table := range tables {
		before[table] = read(table)
	}
	facts, err := s.sql.facts(t.Context(), s.upkeep, look{statement: "diagnose"})
	if err != nil {
		t.Fatal(err)
	}
	for table, most := range tables {
		if n := read(table) - before[table]; n > most {
			t.Errorf("it reads %d rows of %s", n, table)
		}
	}
	got := map[string]admin.Fact{}
	for _, f := range facts {
		got[f.Name+" "+f.About+" "+f.Text] = f
	}
	if f := got["awaited pages render"]; f.N != 200 || f.Of != 200 {
		t.Errorf("what followers wait for is found as %+v", f)
	}
	if f := got["kept pages "]; f.N != 100 || f.Of != 100 {
		t.Errorf("jobs that are kept are found as %+v", f)
	}
	if f := got["late flows "]; f.N != 100 {
		t.Errorf("ends that nobody has looked at are found as %+v", f)
	}
}
