package postgres_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/postgres"
)

// serverCPU is the time of the processor that all sessions of the database have used so far, by
// their ids.
func serverCPU(b *testing.B, pool *pgxpool.Pool) map[int]time.Duration {
	b.Helper()
	rows, err := pool.Query(context.Background(), "select pid from pg_stat_activity where datname = current_database()")
	if err != nil {
		b.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		b.Fatal(err)
	}
	used := map[int]time.Duration{}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			b.Skip("needs Linux, and the server on this machine: ", err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		used[pid] = time.Duration(ns)
	}
	return used
}

// BenchmarkFunctions compares the functions that enqueue with the Go code, by the server's CPU for
// one call, in rounds that take turns.
func BenchmarkFunctions(b *testing.B) {
	ctx := context.Background()
	s, url := openBenchURL(b)
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	one, grouped, unique := newJobs(1, 0, 0), newJobs(1, 0, 1), newJobs(1, 0, 0)
	unique[0].UniqueKey = "u"
	payload := string(one[0].Payload.([]byte))
	n := 0
	enqueue := func(jobs []dibs.NewJob) func() error {
		return func() error {
			newKeys(jobs, &n)
			_, err := s.Enqueue(ctx, jobs)
			return err
		}
	}
	query := func(sql string, args ...any) func() error {
		return func() error {
			_, err := pool.Exec(ctx, sql, args...)
			return err
		}
	}
	for _, bb := range []struct {
		name  string
		calls int
		ways  [2]func() error
	}{
		{"one", 3000, [2]func() error{enqueue(one), query("select dibs.enqueue('bench', $1::text::json, 'mail')", payload)}},
		{"one of a group", 1000, [2]func() error{enqueue(grouped), query("select dibs.enqueue('bench', $1::text::json, 'mail', group_key => 'g0')", payload)}},
		{"one with a key", 1000, [2]func() error{enqueue(unique), query("select dibs.enqueue('bench', $1::text::json, 'mail', unique_key => nextval('dibs.job_id')::text)", payload)}},
	} {
		b.Run(bb.name, func(b *testing.B) { takeTurns(b, pool, bb.calls, bb.ways) })
	}
	for _, bb := range []struct {
		name   string
		set    func(i int, j *dibs.NewJob)
		change *strings.Replacer // changes the text of the jobs
	}{
		{"1000", func(int, *dibs.NewJob) {}, strings.NewReplacer()},
		{"1000 with blanks", func(int, *dibs.NewJob) {}, strings.NewReplacer(`,"`, `, "`, `":`, `": `)},
		{"1000 with a delay and metadata", func(_ int, j *dibs.NewJob) { j.Delay, j.Metadata = time.Hour, []byte(`{"a":1}`) }, strings.NewReplacer(`"1h0m0s"`, "3600")},
		{"1000 at a time, of a kind in Greek", func(_ int, j *dibs.NewJob) {
			j.RunAt, j.Kind = time.Date(2100, 2, 3, 4, 5, 6, 0, time.UTC), "ταχυδρομείο"
		}, strings.NewReplacer()},
		{"1000 of 50 groups", func(i int, j *dibs.NewJob) { j.Group = group(i % 50) }, strings.NewReplacer()},
		{"1000 with keys", func(_ int, j *dibs.NewJob) { j.UniqueKey = "u" }, strings.NewReplacer()},
		{"1000 with keys for an hour", func(_ int, j *dibs.NewJob) { j.UniqueKey, j.UniqueFor = "u", time.Hour }, strings.NewReplacer()},
	} {
		jobs := newJobs(1000, 0, 0)
		for i := range jobs {
			bb.set(i, &jobs[i])
		}
		many := func() error {
			newKeys(jobs, &n)
			text, err := jsonOf(jobs)
			if err != nil {
				return err
			}
			return query("select id from dibs.enqueue_many($1::text::json)", bb.change.Replace(text))()
		}
		b.Run(bb.name, func(b *testing.B) { takeTurns(b, pool, 20, [2]func() error{enqueue(jobs), many}) })
	}
}

// newKeys gives other unique keys to jobs that have some.
func newKeys(jobs []dibs.NewJob, n *int) {
	for i := range jobs {
		if *n++; jobs[i].UniqueKey != "" {
			jobs[i].UniqueKey = fmt.Sprint(*n)
		}
	}
}

// takeTurns measures two ways to enqueue: by Go and by the functions.
func takeTurns(b *testing.B, pool *pgxpool.Pool, calls int, ways [2]func() error) {
	const rounds = 7
	costs := make([][]float64, len(ways))
	for b.Loop() {
		for range rounds {
			for way, call := range ways {
				before := serverCPU(b, pool)
				for range calls {
					if err := call(); err != nil {
						b.Fatal(err)
					}
				}
				used := time.Duration(0)
				for pid, cpu := range serverCPU(b, pool) {
					used += cpu - before[pid]
				}
				costs[way] = append(costs[way], float64(used.Microseconds())/float64(calls))
			}
		}
	}
	for way, name := range []string{"Go", "SQL"} {
		slices.Sort(costs[way])
		b.Logf("%s: %.1f µs [%.1f-%.1f] of the server's CPU a call", name, costs[way][rounds/2], costs[way][0], costs[way][rounds-1])
	}
	b.ReportMetric(costs[1][rounds/2]/costs[0][rounds/2], "times")
}

// BenchmarkOpen measures what a program that runs for a moment waits for before its first call.
func BenchmarkOpen(b *testing.B) {
	_, url := openBenchURL(b)
	for b.Loop() {
		s, err := postgres.Open(b.Context(), url, postgres.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstCall measures the first call of a new connection, as programs make that connect
// for each request, beside a bare insert's.
func BenchmarkFirstCall(b *testing.B) {
	ctx := context.Background()
	s, url := openBenchURL(b)
	if _, err := s.Enqueue(ctx, newJobs(1, 0, 0)); err != nil {
		b.Fatal(err)
	}
	first, err := pgxpool.New(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer first.Close()
	for _, sql := range []string{
		"create table if not exists bare (id bigint generated always as identity primary key, payload text); insert into bare (payload) values ('1')",
		"select dibs.enqueue('bench', '1')", "select dibs.enqueue('bench', '1', unique_key => gen_random_uuid()::text)",
		`select id from dibs.enqueue_many('[{"queue":"bench"},{"queue":"bench"}]')`, "select dibs.enqueue('bench', '1', unique_key => 'u', unique_for => '1 day')",
	} {
		b.Run(sql[:min(len(sql), 60)], func(b *testing.B) {
			var firsts, seconds []float64
			for b.Loop() {
				for range 30 {
					conn, err := pgx.Connect(ctx, url)
					if err != nil {
						b.Fatal(err)
					}
					pid := int(conn.PgConn().PID())
					before := serverCPU(b, first)[pid]
					for i := range 2 {
						if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
							b.Fatal(err)
						}
						after := serverCPU(b, first)[pid]
						if used := float64((after - before).Microseconds()); i == 0 {
							firsts = append(firsts, used)
						} else {
							seconds = append(seconds, used)
						}
						before = after
					}
					if err := conn.Close(ctx); err != nil {
						b.Fatal(err)
					}
				}
			}
			slices.Sort(firsts)
			slices.Sort(seconds)
			n := len(firsts)
			b.Logf("first call %.0f µs [%.0f-%.0f], second %.0f µs [%.0f-%.0f]", firsts[n/2], firsts[0], firsts[n-1], seconds[n/2], seconds[0], seconds[n-1])
		})
	}
}
