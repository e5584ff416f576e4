package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
)

// openCrowded opens a store whose queue q has a few jobs, older than 300,000 waiting and completed
// ones of other queues.
func openCrowded(t *testing.T) (*Store, *pgxpool.Pool, []int64) {
	t.Helper()
	ctx, url := t.Context(), pgtest.URL(t)
	if err := Migrate(ctx, url, Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(ctx, url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // nothing is left to fail
	rare := slices.Repeat([]dibs.NewJob{{Queue: "q", Kind: "rare"}}, 3)
	rare = append(rare, dibs.NewJob{Queue: "many", Kind: "rare"}, dibs.NewJob{Queue: "more", Kind: "rare"})
	added, err := s.Enqueue(ctx, rare)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for _, a := range added {
		ids = append(ids, a.ID)
	}
	for _, text := range []string{
		`alter table dibs.job set (autovacuum_enabled = false)`,
		`insert into dibs.job (queue, kind, payload, priority, run_at, gate, max_attempts, created_at)
		select (array['many', 'more'])[1 + i % 2], 'k', '1', 255, now(), 0, 25, now() from generate_series(1, 300000) i`,
		`insert into dibs.finished (id, state, finished_at, run_at, created_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload)
		select - i, 'completed', now() - i % 1000 * interval '1 s', now(), now(), 1, 0, 1, 1, false,
			(array['many', 'more'])[1 + i % 2], case when i % 100000 = 7 then 'rare' else 'k' end, '1' from generate_series(1, 300000) i`,
	} {
		if _, err := s.pool.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	return s, s.pool, ids
}

// Lists that match few jobs end a page when they have looked at 100,000, and lists of a small
// queue find its jobs among any number of others. All pages together miss no job.
func TestListsLookAtABoundedNumberOfJobs(t *testing.T) {
	t.Parallel()
	s, _, ids := openCrowded(t)
	for _, c := range []struct {
		name        string
		f           admin.Filter
		jobs, pages int
	}{
		{"a kind that there is not", admin.Filter{Kind: "nosuch"}, 0, 4},
		{"a rare kind", admin.Filter{Kind: "rare"}, 5, 4},
		{"a rare kind of a big queue", admin.Filter{Queue: "many", Kind: "rare", State: dibs.Waiting}, 1, 4},
		{"an error that there is not", admin.Filter{Error: "nosuch"}, 0, 4},
		{"a worker that there is not", admin.Filter{Worker: "nosuch", State: dibs.Completed}, 0, 5},
		{"a rare kind with a payload", admin.Filter{Kind: "rare", Payload: "nul"}, 5, 31},
		{"a small queue", admin.Filter{Queue: "q"}, 3, 1},
		{"a kind that no finished job has", admin.Filter{Kind: "nosuch", State: dibs.Completed}, 0, 5},
		{"a rare kind that is finished", admin.Filter{Kind: "rare", State: dibs.Completed}, 3, 5},
		{"a rare kind that is finished, of one queue", admin.Filter{Queue: "more", Kind: "rare", State: dibs.Completed}, 3, 2},
	} {
		pages := 0
		var got []int64
		for more := true; more; pages++ {
			p, err := s.List(t.Context(), c.f)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range p.Jobs {
				if got = append(got, j.ID); j.Queue == "" || !j.State.Final() && j.State != dibs.Waiting && j.State != dibs.Running {
					t.Errorf("%s: job %d is %s", c.name, j.ID, j.State)
				}
			}
			c.f.After, more = p.Next, p.Next != ""
		}
		slices.Sort(got)
		if len(slices.Compact(got)) != c.jobs || pages > c.pages || pages < c.pages-1 {
			t.Errorf("%s: %d jobs in %d pages, want %d in %d", c.name, len(got), pages, c.jobs, c.pages)
		}
		if c.name == "a rare kind" && !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", c.name, got, ids)
		}
	}
}

// countReads makes the store use one connection for all. read returns how many rows of a table
// that connection has read so far.
func countReads(t *testing.T, s *Store) (read func(table string) int) {
	t.Helper()
	config := s.pool.Config().Copy()
	config.MaxConns = 1
	one, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	pgtest.Flushes(t, one)
	s.db = planningConn{readCommitted{one}}
	s.upkeep = s.db
	return func(table string) (n int) {
		t.Helper()
		if _, err := one.Exec(t.Context(), "select pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
		err := one.QueryRow(t.Context(), "select seq_tup_read + idx_tup_fetch from pg_stat_user_tables where relid = $1::regclass", table).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// Running jobs are read from the newest on, as far as a page needs. The log of claims also
// names jobs that have ended: a page ends when it has looked at 100,000.
func TestListsOfRunningJobsReadABoundedNumberOfRows(t *testing.T) {
	t.Parallel()
	s, pool, ids := openCrowded(t)
	for _, text := range []string{
		`with c as (
			insert into dibs.claim (token, check_at, queue, worker, ids)
			select gen_random_uuid(), now() + interval '1 hour', queue, 'w', array_agg(id) from dibs.job where kind = 'rare' or id % 3 = 0 group by queue, id / 1000
			returning token, ids
		)
		update dibs.job j set token = c.token, lease_until = now() + interval '1 hour'
		from c where j.id = any (c.ids) and (j.kind = 'rare' or j.id % 3 = 0)`,
		`insert into dibs.claim (token, check_at, queue, worker, ids)
		select gen_random_uuid(), now() + interval '1 hour', 'gone', 'w', array_agg(i) from generate_series(1000001, 1100000) i`,
	} {
		if _, err := pool.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	read := countReads(t, s)
	before := read("dibs.job")
	if p, err := s.List(t.Context(), admin.Filter{Queue: "many", State: dibs.Running}); err != nil || len(p.Jobs) != 100 {
		t.Fatalf("%d jobs, %v", len(p.Jobs), err)
	}
	if n := read("dibs.job") - before; n > 5000 {
		t.Errorf("for a page of 100 jobs it reads %d rows", n)
	}
	var got []int64
	pages := 0
	f := admin.Filter{Kind: "rare", State: dibs.Running}
	for more := true; more; pages++ {
		p, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range p.Jobs {
			got = append(got, j.ID)
		}
		f.After, more = p.Next, p.Next != ""
	}
	slices.Sort(got)
	if !slices.Equal(got, ids) || pages != 3 {
		t.Errorf("%v in %d pages, want %v in 3", got, pages, ids)
	}
}

// Locks finds a claim's locks by reading few rows, however many there are.
func TestLocksReadABoundedNumberOfRows(t *testing.T) {
	t.Parallel()
	s, _, _ := openCrowded(t)
	db := s.db
	read := countReads(t, s)
	s.db = db // count only the rows that Locks reads by upkeep's connection
	f, err := s.Locks(t.Context(), "many", 10)
	if err != nil {
		t.Fatal(err)
	}
	rows := read("dibs.job")
	if rows > 100_000 {
		t.Errorf("it reads %d rows", rows)
	}
	if !slices.Contains(f.Locks, admin.Lock{On: "rows of job", Mode: "FOR NO KEY UPDATE", Rows: 10, Means: strengths[1].means}) {
		t.Errorf("it finds %+v", f.Locks)
	}
}

// However deaths are spread over queues, the newest of each queue are found, and exactly those, by reading few other
// rows.
func TestFailuresReadABoundedNumberOfRows(t *testing.T) {
	t.Parallel()
	s := migrated(t)
	read := countReads(t, s)
	const queues, each = 60, 200
	var names []string
	for q := range queues {
		names = append(names, fmt.Sprint("q", q+1))
	}
	for name, at := range map[string]string{
		"evenly":                   "q + 60 * n",
		"one queue after another":  "1000 * q + n",
		"at one time":              "0",
		"at random":                "(random() * 20000)::int",
		"most in few queues":       "(n * power(1.2, q))::int",
		"one in each lately":       "case n when 1 then 0 else 100000 * q + n end",
		"a quarter of them lately": "case when q % 4 = 0 then 0 else 100000 end + (random() * 10000)::int",
	} {
		for _, text := range []string{
			"alter table dibs.finished set (autovacuum_enabled = false)", "truncate dibs.finished",
			fmt.Sprintf(`insert into dibs.queue (name) select 'q' || q from generate_series(1, %d) q on conflict do nothing`, queues),
			fmt.Sprintf(`insert into dibs.finished (id, state, finished_at, run_at, created_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload)
			select 1000 * q + (n * 7919) %% 1000, 'dead', now() - interval '1 s' * (%s), now(), now(), 1, 0, 1, 1, false, 'q' || q, 'k', '1'
			from generate_series(1, %d) q, generate_series(1, %d) n where n <= case q %% 10 when 7 then 3 else %[3]d end`, at, queues, each),
			"analyze dibs.finished", // without vacuum, each entry that is read counts as a row
		} {
			if _, err := s.pool.Exec(t.Context(), text); err != nil {
				t.Fatal(name, err)
			}
		}
		for _, limit := range []int{1, 7, 100} {
			var want []int64
			if err := s.pool.QueryRow(t.Context(), `select array_agg(id order by finished_at desc, id desc) from (
				select id, finished_at, row_number() over (partition by queue order by finished_at desc, id desc) as nth
				from dibs.finished where state = 'dead') x where nth <= $1`, limit).Scan(&want); err != nil {
				t.Fatal(err)
			}
			before := read("dibs.finished")
			list, err := s.Failures(t.Context(), admin.FailureFilter{Queues: names, Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			if n, most := read("dibs.finished")-before, 2*(queues+len(want)); n > most {
				t.Errorf("died %s: for %d failures it reads %d rows, want at most %d", name, limit, n, most)
			}
			var got []int64
			for _, f := range list {
				got = append(got, f.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("died %s: the newest %d are not those that it lists:\n%v\n%v", name, limit, got, want)
			}
		}
	}
}
