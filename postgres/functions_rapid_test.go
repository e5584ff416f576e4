package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/postgres"
)

// twins are a store that enqueues by itself, and one that enqueues through the functions, each
// in a schema of its own.
func twins(t *testing.T) (bySelf *postgres.Store, byFunctions functionsStore, pool *pgxpool.Pool) {
	t.Helper()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var stores []*postgres.Store
	for _, schema := range []string{"by_self", "by_functions"} {
		o := postgres.Options{Schema: schema}
		if err := postgres.Migrate(t.Context(), url, o); err != nil {
			t.Fatal(err)
		}
		s := opened(t, url, o)
		s.WideAsUsual()
		s.SweepNever() // a sweep of one of them would give groups their places, which the other has yet to do
		stores = append(stores, s)
	}
	return stores[0], functionsStore{stores[1], "by_functions", pool}, pool
}

// pick draws one of the values, most often the first.
func pick[T any](t *rapid.T, name string, values ...T) T {
	return values[max(0, rapid.IntRange(-3*len(values), len(values)-1).Draw(t, name))]
}

var longest = strings.Repeat("é", 127) + "n"

// odd names the fields of a job that may break rules.
type odd struct {
	*rapid.T
	fields map[string]bool
}

// pickOdd draws one of the values for an odd field; for others it is the first.
func pickOdd[T any](t odd, name string, values ...T) T {
	if !t.fields[name] {
		return values[0]
	}
	return rapid.SampledFrom(values).Draw(t.T, name)
}

// anyJob is a job that may break rules.
func anyJob(rt *rapid.T) dibs.NewJob {
	t := odd{rt, map[string]bool{}}
	for range rapid.IntRange(0, 3).Draw(rt, "odd fields") {
		t.fields[rapid.SampledFrom(strings.Fields("queue kind priority delay run_at max_attempts group payload metadata unique_key unique_until unique_for unique_window if_held delay_limit")).Draw(rt, "odd")] = true
	}
	names := func(field string, rest ...string) string {
		return pickOdd(t, field, append([]string{
			"a", "b", "Übung \"1\" \\ 'x'", longest, longest + "n", "tab\tin", "a\u202eb", "\u0085", "x\u2028" + longest,
			strings.Repeat("ü", 30) + "\x7f", "\u00a0\x01",
		}, rest...)...)
	}
	j := dibs.NewJob{
		Queue:    names("queue", "", "postgres://u:secret@h/d"),
		Kind:     names("kind"),
		Priority: pickOdd(t, "priority", nil, new(0), new(32767), new(-1), new(32768), new(math.MaxInt32)),
		Delay: pickOdd(t, "delay", 0, time.Hour, -time.Second, dibs.MaxDelay, dibs.MaxDelay+time.Microsecond, 1500*time.Millisecond, -90*time.Minute-250*time.Microsecond,
			-1234567*time.Microsecond),
		RunAt: pickOdd(t, "run_at", time.Time{}, time.Now().Add(time.Hour).Truncate(time.Microsecond), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
			time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 6, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 0).UTC()),
		MaxAttempts: pickOdd(t, "max_attempts", 0, 1, 1_000_000, 1_000_001, -1),
		Group:       pickOdd(t, "group", "", "g", longest, longest+"n", "\x01", "a\u2066"),
		Payload: json.RawMessage(pickOdd(t, "payload", `{"a":1}`, `null`, `"x"`, `{"a": 1 , "a":"\u0000\ud800\\u0041\/"}`, `"\u00e9é\/\n"`, `1e400`,
			`"`+strings.Repeat("p", 509)+`"`, `"`+strings.Repeat("p", 510)+`"`, `"`+strings.Repeat("p", 998)+`"`, `"`+strings.Repeat("p", 999)+`"`)),
		Metadata: json.RawMessage(pickOdd(t, "metadata", "", `{}`, `{"a":"`+strings.Repeat("m", 510)+`"}`, `[1]`, `"m"`, `null`, `{"a":"`+strings.Repeat("m", dibs.MaxMetadata)+`"}`)),
	}
	if rapid.Bool().Draw(rt, "unique") {
		j.UniqueKey = pickOdd(t, "unique_key", "k", "l", "", longest+longest+"nn", longest+longest+"nnn", "\n")
		j.UniqueUntil = pickOdd(t, "unique_until", "", dibs.UntilFinished, dibs.UntilClaimed, "never \x02")
		j.UniqueFor = pickOdd(t, "unique_for", 0, time.Hour, time.Millisecond, 999*time.Microsecond, -time.Minute, dibs.MaxDelay+time.Hour)
		j.UniqueWindow = pickOdd(t, "unique_window", "", "hour", "day in UTC", "week", "month", "year", "day in ", "dayin", strings.Repeat("x", 50))
		j.IfHeld = pickOdd(t, "if_held", "", dibs.HeldKeep, dibs.HeldReplace, dibs.HeldPush, "merge")
		j.DelayLimit = pickOdd(t, "delay_limit", 0, 2*time.Hour, -time.Second, dibs.MaxDelay+time.Second)
	}
	if rapid.Bool().Draw(rt, "flow") {
		j.Ref = pick(rt, "ref", "a", "", "b", longest+"n", "tab\tin")
		for range rapid.IntRange(0, 3).Draw(rt, "after") {
			j.After = append(j.After, dibs.Dep{
				ID:  pick(rt, "id", int64(0), 0, 1<<60, -4),
				Ref: pick(rt, "other", "a", "b", "", strings.Repeat("ü", 30), longest+"n", "x\u2028"+longest),
				On:  pick(rt, "on", "", dibs.NeedCompleted, dibs.NeedEnded, dibs.NeedFailed, "done", "never \x02"),
			})
		}
	}
	return j
}

// The functions refuse what the Go code refuses, name the same field and give the same reason,
// alone and in a batch.
func TestTheFunctionsRefuseInTheSameWords(t *testing.T) {
	t.Parallel()
	bySelf, byFunctions, _ := twins(t)
	ctx := t.Context()
	for _, s := range []*postgres.Store{bySelf, byFunctions.Store} {
		if _, err := s.ChangeQueue(ctx, "b", dibs.QueueChange{PayloadLimit: new(1000)}.Apply); err != nil {
			t.Fatal(err)
		}
	}
	refused, fields := 0, map[string]bool{}
	rapid.Check(t, func(rt *rapid.T) {
		jobs := make([]dibs.NewJob, pick(rt, "jobs", 1, 2, 6))
		for i := range jobs {
			jobs[i] = anyJob(rt)
		}
		_, want := bySelf.Enqueue(ctx, jobs)
		_, got := byFunctions.Enqueue(ctx, jobs)
		var wantInvalid, gotInvalid *dibs.InvalidError
		if errors.As(want, &wantInvalid) != errors.As(got, &gotInvalid) || wantInvalid == nil && got != nil {
			rt.Fatalf("the functions say %v, Go says %v", got, want)
		}
		if wantInvalid != nil {
			refused++
			fields[wantInvalid.Field] = true
			if *gotInvalid != *wantInvalid {
				rt.Fatalf("the functions say\n%q, Go says\n%q", gotInvalid, wantInvalid)
			}
		}
	})
	t.Logf("%d batches refused for %d fields", refused, len(fields))
}

// goodJob is a valid job: it is enqueued, or its key is held.
func goodJob(t *rapid.T) dibs.NewJob {
	j := dibs.NewJob{
		Queue:       pick(t, "queue", "q", "strict", ""),
		Kind:        pick(t, "kind", "k", "Übung \"1\" \\ 'x'"),
		Priority:    pick(t, "priority", nil, new(0), new(32767)),
		Delay:       pick(t, "delay", 0, 1000*time.Hour, 3000*time.Hour),
		MaxAttempts: pick(t, "max_attempts", 0, 3),
		Group:       pick(t, "group", "", "g", "h"),
		Payload: json.RawMessage(pick(t, "payload", `{"a":1}`, `null`, `"x"`, `{"a": 1 , "a":"\u0000\ud800\\u0041\/"}`, `"\u00e9é\/\n"`, `1e400`, `"\\u00e9\""`,
			`"`+strings.Repeat("p", 509)+`"`, `"`+strings.Repeat("p", 510)+`"`)),
		Metadata: json.RawMessage(pick(t, "metadata", "", `{}`, `{ "a" : "\u0000" }`, `{"a":"`+strings.Repeat("m", 510)+`"}`)),
	}
	if j.Delay == 0 {
		j.RunAt = pick(t, "run_at", time.Time{}, time.Unix(0, 0).UTC(), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC))
	}
	if !rapid.Bool().Draw(t, "unique") {
		return j
	}
	j.UniqueKey = pick(t, "unique_key", "k", "l")
	j.UniqueUntil = pick(t, "unique_until", "", dibs.UntilFinished, dibs.UntilClaimed)
	j.UniqueFor = pick(t, "unique_for", 0, 1000*time.Hour, 2000*time.Hour)
	if j.UniqueFor == 0 {
		j.UniqueWindow = pick(t, "unique_window", "", "day", "week in UTC", "month")
	}
	starts := j.Delay != 0 || !j.RunAt.IsZero()
	if j.IfHeld = pick(t, "if_held", "", dibs.HeldReplace, dibs.HeldKeep, dibs.HeldPush); j.IfHeld == dibs.HeldPush && !starts {
		j.Delay, starts = 1000*time.Hour, true
	}
	if starts && (j.IfHeld == dibs.HeldPush || j.IfHeld == dibs.HeldReplace && rapid.Bool().Draw(t, "limited")) {
		j.DelayLimit = pick(t, "delay_limit", 2000*time.Hour, 500*time.Hour)
	}
	return j
}

// goodFlow has some of the jobs come after others: by their refs, or by an id, which stands for the place among those that
// a store has given, from 1.
func goodFlow(t *rapid.T, jobs []dibs.NewJob, given int) {
	for i := range jobs {
		j := &jobs[i]
		j.Ref = pick(t, "ref", "", "a", "b")
		if j.IfHeld == dibs.HeldReplace || j.IfHeld == dibs.HeldPush {
			continue
		}
		need := pick(t, "on", "", dibs.NeedEnded, dibs.NeedFailed)
		for range pick(t, "after", 0, 1, 3) {
			d := dibs.Dep{Ref: pick(t, "other", "a", "b", "nobody"), On: pick(t, "other on", need, dibs.NeedEnded)}
			if n := rapid.IntRange(0, given).Draw(t, "id"); n > 0 && rapid.Bool().Draw(t, "by id") {
				d.ID, d.Ref = int64(n), ""
			}
			j.After = append(j.After, d)
		}
	}
}

// withIDs puts the ids that a store has given in the place of goodFlow's.
func withIDs(jobs []dibs.NewJob, given []int64) []dibs.NewJob {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].After = slices.Clone(jobs[i].After)
		for n, d := range jobs[i].After {
			if d.ID > 0 {
				jobs[i].After[n].ID = given[d.ID-1]
			}
		}
	}
	return jobs
}

// contents is what the tables of a schema hold, without ids and the exact time. Times are given in
// hours from now.
const contents = `
with ids as (select id, row_number() over (order by id) as nth from (select id from S.job union all select id from S.finished) x),
	job as (select j.*, i.nth from S.job j join ids i using (id))
select coalesce(json_agg(x.line order by x.line), '[]')::text
from (
	select 'job ' || (to_jsonb(j) - array['id', 'run_at', 'created_at', 'claimed_at', 'errors', 'flow'])::text || coalesce(' flow ' || (select i.nth from ids i where i.id = j.flow), '') || ' payload ' || coalesce(j.payload, '') || ' starts ' || case
		when run_at = created_at then 'now' when extract(year from run_at) = 9999 then 'never' else round(extract(epoch from run_at - now()) / 3600)::text end as line
	from job j
	union all
	select format('payload of %s: %s %s', i.nth, p.payload, p.metadata) from S.payload p left join ids i using (id)
	union all
	select format('window of %s %s: %s, for %s', w.queue, w.unique_key, i.nth, case when isfinite(w.until) then round(extract(epoch from w.until - now()) / 3600) end) from S.unique_window w left join ids i on i.id = w.job where w.until > now() -- the others mean nothing, and a sweep deletes them
	union all
	select format('tally of %s: %s waiting, %s blocked, %s enqueued', t.queue, sum(t.waiting), coalesce(sum(t.blocked), 0),
		coalesce(sum(t.enqueued), 0) + coalesce((select sum(h.enqueued) from S.history h where h.queue = t.queue), 0)) -- a sweep moves them there
	from S.tally t group by t.queue
	union all
	select distinct format('woken %s %s', w.queue, g) from S.wake_list w cross join unnest(w.groups) g
	union all
	select distinct format('woken alone %s %s', w.queue, w.group_key) from S.wake w
	union all
	select format('queue %s', to_jsonb(q) - array['version', 'grouped']) from S.queue q
	union all
	select format('not marked as grouped: %s', q.name) from S.queue q where not q.grouped and exists (select from job j where j.queue = q.name and j.group_key is not null)
	union all
	select format('turn %s', t.queue) from S.turn t
	union all
	select format('%s after %s: %s, open %s', c.nth, p.nth, e.need, e.open) from S.edge e left join ids c on c.id = e.child left join ids p on p.id = e.parent
	union all
	select format('listed %s', i.nth) from S.ended_list l cross join unnest(l.ids) u left join ids i on i.id = u
) x`

func contentsOf(t *rapid.T, pool *pgxpool.Pool, schema string) (lines []string) {
	var text string
	if err := pool.QueryRow(t.Context(), strings.ReplaceAll(contents, "S.", schema+".")).Scan(&text); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(text), &lines); err != nil {
		t.Fatal(err)
	}
	return lines
}

// beginAnew deletes everything, and makes a queue with settings of its own.
func (s functionsStore) beginAnew(t *rapid.T) {
	for name := range strings.FieldsSeq("job finished edge ended_list payload tally history wake wake_list unique_window queue turn claim") {
		if _, err := s.pool.Exec(t.Context(), "delete from "+s.schema+"."+name); err != nil {
			t.Fatal(err)
		}
	}
	s.ForgetQueues()
	if _, err := s.ChangeQueue(t.Context(), "strict", dibs.QueueChange{Strict: new(true), MaxAttempts: new(7), PayloadLimit: new(100_000)}.Apply); err != nil {
		t.Fatal(err)
	}
}

// claimTwo claims up to two jobs, ends the first or not, and gives the others back. Before it and after it nothing of ends
// that others wait for is left to do, which stores do at times of their own.
func claimTwo(t *rapid.T, s *postgres.Store, ends bool) {
	settle := func() {
		if err := s.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	defer settle()
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 2, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range jobs {
		o := []dibs.Outcome{j.Lease().Release(), j.Lease().RetryAfter(time.Hour, "no")}[i%2]
		if ends && i == 0 {
			o = j.Lease().Complete(nil)
		}
		if err := s.Finish(t.Context(), []dibs.Outcome{o}); err != nil {
			t.Fatal(err)
		}
	}
}

// asRefused is the error without the names of verbs around it.
func asRefused(err error) string {
	var refused *dibs.InvalidError
	if errors.As(err, &refused) {
		err = refused
	}
	return fmt.Sprint(err)
}

// enqueueBySelf enqueues by the Go code. Jobs that come after others are enqueued in a transaction, after which nobody
// settles before claimTwo.
func enqueueBySelf(t *rapid.T, s *postgres.Store, pool *pgxpool.Pool, jobs []dibs.NewJob) (out []dibs.Enqueued, err error) {
	if !slices.ContainsFunc(jobs, func(j dibs.NewJob) bool { return len(j.After) > 0 }) {
		return s.Enqueue(t.Context(), jobs)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		out, err = s.Tx(tx).Enqueue(t.Context(), jobs)
		return err
	})
	return out, err
}

// The functions write the same rows as the Go code, and give the same answers.
func TestTheFunctionsWriteTheSameRows(t *testing.T) {
	t.Parallel()
	bySelf, byFunctions, pool := twins(t)
	rapid.Check(t, func(rt *rapid.T) {
		ctx := rt.Context()
		ids := map[string][]int64{}
		for _, s := range []functionsStore{{bySelf, "by_self", pool}, byFunctions} {
			s.beginAnew(rt)
		}
		// rank is the place of an id among those that the store has given.
		rank := func(schema string, out []dibs.Enqueued) []string {
			var list []string
			for _, e := range out {
				at := len(ids[schema])
				for i, id := range ids[schema] {
					if id == e.ID {
						at = i
					}
				}
				if at == len(ids[schema]) {
					ids[schema] = append(ids[schema], e.ID)
				}
				list = append(list, fmt.Sprint(at, e.Existing, e.Replaced, e.Pushed))
			}
			return list
		}
		for range rapid.IntRange(1, 5).Draw(rt, "batches") {
			jobs := make([]dibs.NewJob, pick(rt, "jobs", 1, 2, 5))
			for i := range jobs {
				jobs[i] = goodJob(rt)
			}
			if rapid.Bool().Draw(rt, "flow") {
				goodFlow(rt, jobs, len(ids["by_self"]))
			}
			answer, err := enqueueBySelf(rt, bySelf, pool, withIDs(jobs, ids["by_self"]))
			answerByFunctions, errByFunctions := byFunctions.Enqueue(ctx, withIDs(jobs, ids["by_functions"]))
			if want, got := asRefused(err), asRefused(errByFunctions); got != want {
				rt.Fatalf("the functions say %q, Go says %q", got, want)
			}
			if want, got := rank("by_self", answer), rank("by_functions", answerByFunctions); !reflect.DeepEqual(got, want) {
				rt.Fatalf("answers %v, want %v", got, want)
			}
			want, got := contentsOf(rt, pool, "by_self"), contentsOf(rt, pool, "by_functions")
			got = slices.DeleteFunc(got, func(line string) bool { // the functions also name groups of a queue that has had none
				return strings.HasPrefix(line, "woken ") && !slices.Contains(want, line)
			})
			if !reflect.DeepEqual(got, want) {
				missing := func(from, in []string) string {
					return strings.Join(slices.DeleteFunc(slices.Clone(from), func(line string) bool { return slices.Contains(in, line) }), "\n")
				}
				rt.Fatalf("rows\n%s\nwant\n%s", missing(got, want), missing(want, got))
			}
			if rapid.Bool().Draw(rt, "claim") {
				ends := rapid.Bool().Draw(rt, "ends")
				claimTwo(rt, bySelf, ends)
				claimTwo(rt, byFunctions.Store, ends)
			}
		}
	})
}
