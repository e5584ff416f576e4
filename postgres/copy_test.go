package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-queue/dibs"
)

// allSorts are jobs without unique keys that differ in all other fields.
func allSorts(n int) []dibs.NewJob {
	year9999 := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	starts := []time.Time{{}, {}, {}, time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), year9999, time.Date(2200, 2, 29, 1, 2, 3, 4567, time.FixedZone("", 3600))}
	jobs := make([]dibs.NewJob, n)
	for i := range jobs {
		j := dibs.NewJob{
			Queue: []string{"", "b"}[i%2], Kind: []string{"k", "ü/😀"}[i/2%2], Priority: new(i * 7 % (dibs.MaxPriority + 1)),
			Payload: []any{nil, i, "long\n\u0000 " + fmt.Sprint(i), []byte(`{"a": [1, "ü"]}`)}[i%4],
			RunAt:   starts[i%len(starts)], MaxAttempts: i % 3 * 1000, Group: []string{"", "g", fmt.Sprint(i % 50)}[i/3%3],
		}
		if j.RunAt.IsZero() {
			j.Delay = time.Duration(i%2) * (time.Hour + 1500*time.Nanosecond)
		}
		if i%5 == 0 {
			j.Metadata = []byte(`{"m": 1}`)
		}
		jobs[i] = j
	}
	return jobs
}

// stored is what an enqueue has stored, without ids and times. Jobs are in the order of
// their ids.
func stored(t *testing.T, s *Store) (ids []int64, rows []string) {
	t.Helper()
	const looks = `
		select id, concat_ws('|', queue, kind, payload, metadata, priority, gate, max_attempts, group_key, attempt, excused, unique_held,
			coalesce(token::text, 'no token'), coalesce(errors::text, 'no errors'), extract(epoch from now() - created_at) between 0 and 60,
			case when run_at - created_at between interval '0' and interval '1 day' then 'after ' || run_at - created_at else run_at::text end)
		from %[1]s.job
		union all
		select 0, concat_ws('|', 'wake', queue, group_key, count(*)) from %[1]s.wake group by queue, group_key
		union all
		select 0, concat_ws('|', 'tally', queue, sum(waiting), sum(blocked), sum(running), sum(enqueued), count(*)) from %[1]s.tally group by queue
		order by 1, 2`
	got, err := s.pool.Query(t.Context(), fmt.Sprintf(looks, s.o.schema()))
	if err != nil {
		t.Fatal(err)
	}
	var id int64
	var row string
	if _, err := pgx.ForEachRow(got, []any{&id, &row}, func() error {
		if rows = append(rows, row); id != 0 {
			ids = append(ids, id)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return ids, rows
}

// COPY and arrays store the same jobs.
func TestCopyStoresWhatArraysStore(t *testing.T) {
	s := footprintStore(t)
	jobs := allSorts(copyFrom + 100)
	var want []string
	for _, way := range []string{"arrays", "COPY", "COPY in a caller's transaction"} {
		tables := fmt.Sprintf("truncate %[1]s.job, %[1]s.wake, %[1]s.tally", s.o.schema())
		if _, err := s.pool.Exec(t.Context(), tables); err != nil {
			t.Fatal(err)
		}
		var out []dibs.Enqueued
		var err error
		switch way {
		case "arrays":
			out, _, err = s.enqueue(t.Context(), jobs, s.db)
		case "COPY":
			out, err = s.Enqueue(t.Context(), jobs)
		default:
			err = s.InTx(t.Context(), func(tx dibs.Tx) error {
				out, err = tx.Enqueue(t.Context(), jobs)
				return err
			})
		}
		if err != nil {
			t.Fatal(way, err)
		}
		ids, rows := stored(t, s)
		if want == nil {
			want = rows
		}
		if !slices.Equal(rows, want) {
			for i := range min(len(rows), len(want)) {
				if rows[i] != want[i] {
					t.Fatalf("%s stored %d rows, among them %q; arrays stored %d, there %q", way, len(rows), rows[i], len(want), want[i])
				}
			}
			t.Fatalf("%s stored %d rows, arrays %d", way, len(rows), len(want))
		}
		if !slices.EqualFunc(out, ids, func(e dibs.Enqueued, id int64) bool { return e.ID == id && !e.Existing }) {
			t.Errorf("%s: the ids that the call returned are not those of its jobs in their order", way)
		}
	}
}

// A batch that goes by COPY is checked by the newest settings too.
func TestCopyGoesByTheNewestSettings(t *testing.T) {
	s := footprintStore(t)
	jobs := jobsOf("m", "", copyFrom)
	if _, err := s.Enqueue(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	set := fmt.Sprintf("update %s.queue set max_attempts = 7, version = version + 1 where name = 'm'", s.o.schema())
	if _, err := s.pool.Exec(t.Context(), set); err != nil { // another process changes the settings
		t.Fatal(err)
	}
	out, err := s.Enqueue(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []dibs.Enqueued{out[0], out[len(out)-1]} {
		if j, err := s.Get(t.Context(), e.ID); err != nil || j.MaxAttempts != 7 {
			t.Errorf("got %+v, %v; want 7 attempts", j, err)
		}
	}
	if ids, _ := stored(t, s); len(ids) != 2*copyFrom {
		t.Errorf("%d jobs, want %d", len(ids), 2*copyFrom)
	}
}
