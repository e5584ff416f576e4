package storetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

func rowsBorne(t *test) {
	first := t.enqueue(copies(3, dibs.NewJob{Queue: "q", Kind: "good", Payload: "good"})...)
	rows := t.borneRows()
	for _, r := range rows {
		t.runSQL(t.bareRow(r.columns))
	}
	last := t.enqueue(copies(3, dibs.NewJob{Queue: "q", Kind: "good", Payload: "good"})...)
	t.readAll()
	if found := len(t.check()); found < 8 { // one for each text that is no JSON, and the counts
		t.Errorf("check finds only %d lines", found)
	}
	t.upkeep()
	var ids []int64
	for _, j := range t.list(admin.Filter{Limit: 1000}) {
		if j.RunAt.Year() < 9999 {
			ids = append(ids, j.ID)
		}
	}
	payloads := t.work(ids)
	if n := len(slices.DeleteFunc(slices.Clone(payloads), func(p string) bool { return p != `"good"` })); n != len(first)+len(last) {
		t.Errorf("%d of the good jobs were run, want %d", n, len(first)+len(last))
	}
	t.readAll()
	dead := map[string]int{}
	for _, j := range t.list(admin.Filter{State: dibs.Dead, Limit: 1000}) {
		dead[j.Fault]++
		fault, _, _ := strings.Cut(j.Fault, ":")
		if e := j.Errors[len(j.Errors)-1].Error; fault == "" || !strings.HasPrefix(e, "not run: "+fault) {
			t.Errorf("job %d is dead with %q, its fault is %q", j.ID, e, j.Fault)
		}
	}
	ends := map[dibs.State]int{dibs.Completed: len(first) + len(last)}
	for _, r := range rows {
		if ends[r.ends]++; r.ends == dibs.Dead && !slices.ContainsFunc(keysOf(dead), func(f string) bool { return strings.Contains(f, r.fault) }) {
			t.Errorf("no job is dead because its %s; there are %q", r.fault, keysOf(dead))
		}
	}
	equal(t, "dead", len(t.list(admin.Filter{State: dibs.Dead, Limit: 1000})), ends[dibs.Dead])
	equal(t, "completed", len(t.list(admin.Filter{State: dibs.Completed, Limit: 1000})), ends[dibs.Completed])
	equal(t, "waiting", len(t.list(admin.Filter{Limit: 1000})), ends[""])
	t.upkeep()
	t.expectCounts()
	// The kept errors are damaged still, as check says.
	t.runSQL("delete from %sfinished where errors is not null")
	t.repair(t.db)
}

func keysOf(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func rowsShown(t *test) {
	for range 2 {
		t.enqueue(dibs.NewJob{Kind: "k", Payload: "p"})
	}
	jobs := t.claim(dibs.ClaimRequest{N: 2})
	t.finish(jobs[0].Lease().Complete(json.RawMessage(`"r"`)), jobs[1].Lease().Retry("e"))
	t.runSQL("update %sjob set payload = 'a<b', run_at = created_at", "update %sfinished set payload = 'a<b', result = 'c', metadata = '7'")
	claimed := t.claimOne(dibs.ClaimRequest{})
	equal(t, "claimed payload", string(claimed.Payload), "a<b")
	checks.Payload(claimed)
	for _, j := range []*dibs.RawJob{t.get(jobs[0].ID), t.get(jobs[1].ID), claimed} {
		equal(t, "payload", string(j.Payload), `"a<b"`)
		if want := "its column payload is not valid JSON"; !strings.HasPrefix(j.Fault, want) {
			t.Errorf("the fault is %q, want %q", j.Fault, want)
		}
		if _, err := json.Marshal(j); err != nil {
			t.Error(err)
		}
	}
	ended := t.get(jobs[0].ID)
	equal(t, "result", string(ended.Result), `"c"`)
	equal(t, "metadata", string(ended.Metadata), `"7"`)
	t.runSQL("update %sjob set payload = '1'")
}

func rowsInserted(t *test) {
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})
	for range 5 {
		t.runSQL(t.bareRow(nil))
	}
	equal(t, "counted before the claim", t.stats("q").Waiting, int64(1))
	t.finish(outcomes(t.claim(dibs.ClaimRequest{Queue: "q", N: 6}), func(l dibs.Lease) dibs.Outcome { return l.Complete(nil) })...)
	equal(t, "counted after it", t.stats("q").Waiting, int64(0))
	equal(t, "miscounted", t.stats("q").Miscounted, true)
	t.upkeep()
	equal(t, "miscounted after the upkeep", t.stats("q").Miscounted, false)
	t.expectCounts()

	t.runSQL(t.bareRow(map[string]string{"run_at": t.at(-1)})) // nothing is counted, but a job is due
	equal(t, "miscounted", t.stats("q").Miscounted, true)
	t.repair(t.db)
}

func rowsDeleted(t *test) {
	t.enqueue(append(copies(3, dibs.NewJob{Queue: "q", Kind: "k"}), grouped("g"), grouped("g"), dibs.NewJob{Queue: "w", Kind: "k", Payload: strings.Repeat("w", 5000)})...)
	jobs := t.claim(dibs.ClaimRequest{Queue: "q", N: 2})
	t.finish(jobs[0].Lease().Complete(nil))
	t.runSQL("delete from %sjob", "delete from %sfinished", "delete from %sclaim")
	t.upkeep()
	t.expectCounts()
}

// runs returns the columns of a job that was marked as running with SQL.
func (t *test) runs(hours int) map[string]string {
	return map[string]string{
		"gate": t.one("0", "0", "3"), "token": t.token(), "lease_until": t.at(hours), "claimed_at": t.at(-2), "attempt": "1", "worker": "'w'",
	}
}

func rowsWithoutClaim(t *test) {
	t.enqueue(dibs.NewJob{Queue: "q", Kind: "good"})
	t.runSQL(t.bareRow(t.runs(-1)), t.bareRow(t.runs(1000)), t.bareRow(t.runs(1)))
	equal(t, "found", len(t.check()), 5)
	t.upkeep() // finds the damaged jobs
	t.upkeep() // ends those of their leases that are over
	got := map[string]int{}
	for _, j := range t.claim(dibs.ClaimRequest{Queue: "q", N: 10}) {
		if got[j.Kind]++; j.Kind == "bad" && j.Errors[0].Error != "lease expired" {
			t.Errorf("job %d was given back with %q", j.ID, j.Errors[0].Error)
		}
	}
	equal(t, "claimed", fmt.Sprint(got), "map[bad:2 good:1]")
	equal(t, "running", len(t.list(admin.Filter{State: dibs.Running})), 4)
	t.repair(t.db)
	equal(t, "found after that", t.check(), []string(nil))
}

// Repair looks at all jobs at once, where the upkeep goes through them in time.
func rowsRepairedAtOnce(t *test) {
	t.enqueue(copies(1200, dibs.NewJob{Queue: "q", Kind: "good"})...)
	t.runSQL(t.bareRow(t.runs(-1)), t.bareRow(t.runs(1000)))
	mended := t.repair(t.db)
	if !slices.ContainsFunc(mended, func(line string) bool { return strings.Contains(line, "nobody would ever") }) {
		t.Errorf("mended: %q", mended)
	}
	equal(t, "found after that", t.check(), []string(nil))
	for t.stats("q").Running > 0 {
		t.sweep()
		t.must(t.ctx.Err())
	}
	bad := t.list(admin.Filter{Queue: "q", Kind: "bad"})
	equal(t, "given back", len(bad), 2)
	for _, j := range bad {
		equal(t, "error", j.Errors[0].Error, "lease expired")
	}
}

func rowsClaimDeleted(t *test) {
	t.enqueue(copies(4, dibs.NewJob{Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{N: 2, Lease: time.Hour})
	lost := t.claim(dibs.ClaimRequest{N: 2})
	t.runSQL("delete from %sclaim")
	t.extendAll(time.Hour, leases(jobs)...)
	t.finish(jobs[0].Lease().Complete(nil))
	t.upkeep()
	equal(t, "found", t.check(), []string(nil))
	t.finish(jobs[1].Lease().Complete(nil))
	t.extendAll(dibs.MinLease, leases(lost)...)
	equal(t, "given back", ids(t.claimSoon(dibs.ClaimRequest{N: 2}, 2)), ids(lost))
}

func rowsOfGroups(t *test) {
	t.enqueue(grouped("g"), grouped("g"), grouped("h"), grouped("h"), grouped("h"))
	t.runSQL("delete from %sjob where group_key = 'g' and gate = 0", "update %sjob set gate = 0 where group_key = 'h'")
	equal(t, "found", len(t.check()) >= 2, true)
	t.upkeep()
	t.upkeep()
	got := map[string]int{}
	for range 2 {
		for _, j := range t.claim(dibs.ClaimRequest{N: 10}) {
			got[j.Group]++
		}
	}
	equal(t, "claimed", fmt.Sprint(got), "map[g:1 h:1]")
	t.repair(t.db)
}

func rowsOfQueues(t *test) {
	t.enqueue(copies(2, dibs.NewJob{Queue: "q", Kind: "k"})...)
	jobs := t.claim(dibs.ClaimRequest{Queue: "q", N: 2})
	want := t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"}, dibs.NewJob{Queue: "q", Kind: "k", Group: "g"})
	t.runSQL("delete from %squeue where name = 'q'")
	t.readAll()
	t.finish(jobs[0].Lease().Complete(nil))
	t.upkeep()
	t.finish(jobs[1].Lease().Retry("e"))
	equal(t, "claimed", ids(t.claimSoon(dibs.ClaimRequest{Queue: "q", N: 2}, 2)), want)
	t.repair(t.db) // on PostgreSQL, a finish writes no counts for a queue that does not exist
}

func rowsWithUsedID(t *test) {
	done := t.enqueue(dibs.NewJob{Queue: "q", Kind: "k"})[0]
	t.finish(t.claimOne(dibs.ClaimRequest{Queue: "q"}).Lease().Complete(nil))
	t.runSQL(t.bareRow(map[string]string{"id": fmt.Sprint(done), "max_attempts": "1"}))
	others := t.enqueue(copies(2, dibs.NewJob{Queue: "q", Kind: "k", MaxAttempts: 1})...)
	jobs := t.claim(dibs.ClaimRequest{Queue: "q", N: 3})
	equal(t, "claimed", len(jobs), 3)
	t.extendAll(dibs.MinLease, leases(jobs)...)
	for _, id := range others {
		for t.sweep(); t.get(id).State != dibs.Dead; t.sweep() {
			t.must(t.ctx.Err())
		}
	}
	equal(t, "the ended one", t.get(done).State, dibs.Completed)
	t.repair(t.db)
	equal(t, "found after that", t.check(), []string(nil))
}

func rowsBesides(t *test) {
	for _, name := range []string{"bad", "good"} {
		_, err := t.db.SetSchedule(t.ctx, dibs.Schedule{Name: name, Spec: "every 1h", Kind: name, Queue: "q"})
		t.must(err)
	}
	for _, settings := range []string{`{}`, `{"spec":7}`, `{"spec":"every never","queue":"q","kind":"k"}`, `{"spec":"every 1h"}`, `{"spec":"every 1h","kind":"k","priority":-5}`} {
		t.runSQL("update %sschedule set since = "+t.at(-2)+", next_at = "+t.at(-1), "update %sschedule set settings = '"+settings+"' where name = 'bad'")
		t.readAll()
		_, _ = t.db.Sweep(t.ctx) // on PostgreSQL, Sweep returns an error about the schedule, after it has done everything else
		equal(t, "job of the other", t.claimOne(dibs.ClaimRequest{Queue: "q"}).Kind, "good")
		found := t.check()
		if len(found) != 1 || !strings.HasPrefix(found[0], "schedule bad: schedule.s") {
			t.Errorf("with the settings %s, check finds %q", settings, found)
		}
	}
	t.must(t.db.DeleteSchedule(t.ctx, "bad"))
	t.runSQL(t.one(
		"insert into %sworker values (gen_random_uuid(), '', '', -1, '', '{a}', '{}', -5, 'sleeping', '0001-01-01', '290000-01-01')",
		"insert into %sworker values ("+t.token()+", '', '', -1, '', '[null, 5, {}]', '[7]', -5, 'sleeping', -9000000000000000000, 9000000000000000000)"))
	t.readAll()
}

// endedRow is a row of an ended job on PostgreSQL, as somebody would insert it.
func endedRow(state string, columns map[string]string) string {
	values := map[string]string{"run_at": "now()", "created_at": "now()", "claimed_at": "now()", "finished_at": "now()"}
	maps.Copy(values, columns)
	return fmt.Sprintf(`insert into %%sfinished (id, state, finished_at, run_at, created_at, claimed_at, attempt, excused, max_attempts, priority, cancel_requested, queue, kind, payload)
		values (nextval('job_id'), '%s', %s, %s, %s, %s, 1, 0, 1, 100, false, 'q', 'k', '1')`, state, values["finished_at"], values["run_at"], values["created_at"], values["claimed_at"])
}

// refuseEnded expects that PostgreSQL refuses times and sums that no reader could bear.
func (t *test) refuseEnded() {
	t.Helper()
	for _, column := range []string{"finished_at", "run_at"} {
		for _, time := range []string{"infinity", "-infinity", "200000-01-01"} {
			t.refuse(endedRow("completed", map[string]string{column: "'" + time + "'"}), "finished_run_at_and_finished_at_are_in_years_1_to_9999")
		}
	}
	for _, values := range []string{"'infinity', 'q', 1, 0, 0, 0, 0, 0, 0", "'-infinity', 'q', 1, 0, 0, 0, 0, 0, 0", "now(), 'q', 0, 0, 0, 0, 0, 0, 9000000000000000000", "now(), 'q', -9000000000000000000, 0, 0, 0, 0, 0, 0"} {
		t.refuse("insert into %shistory values ("+values+")", "history_minute_is_in_years_1_to_9999_sums_are_below_1e18")
	}
	t.refuse("insert into %saudit (at, who, did, what, n) values ('infinity', 'a', 'b', 'c', 1)", "audit_at_is_in_years_1_to_9999")
}

// What no constraint refuses on PostgreSQL, since every finish, or every enqueue and claim, would pay for it.
func rowsOfUpkeep(t *test) {
	if t.Database != PostgreSQL.Database {
		return // elsewhere, no row holds an infinite time, and counts are checked
	}
	t.enqueue(copies(3, dibs.NewJob{Queue: "q", Kind: "k"})...)
	t.finish(t.claimOne(dibs.ClaimRequest{Queue: "q"}).Lease().Complete(nil))
	cancelled := t.claimOne(dibs.ClaimRequest{Queue: "q"}).ID
	_, _, err := t.db.Cancel(t.ctx, []int64{cancelled})
	t.must(err)
	t.upkeep()
	for _, time := range []string{"'infinity'", "'-infinity'", "'200000-01-01'", "'4000-01-01 BC'"} {
		t.runSQL(
			endedRow("completed", map[string]string{"claimed_at": time, "created_at": time}),
			endedRow("dead", map[string]string{"claimed_at": time, "created_at": time}),
			fmt.Sprintf("update %%sjob set claimed_at = %s where id = %d", time, cancelled),
			"insert into %stally (queue, at, waiting, dead, enqueued, claimed, run_us) values ('q', "+time+", 0, 0, 1, 1, 1)")
		t.readAll()
		t.upkeep()
		t.readAll()
	}
	const most = "9223372036854775807"
	for _, n := range []string{most, "-" + most} {
		t.runSQL(strings.ReplaceAll("insert into %stally (queue, waiting, blocked, running, completed, dead, cancelled, enqueued, claimed, succeeded, failed, died, wait_us, run_us) select 'q', n, n, n, n, n, n, n, n, n, n, n, n, n from (values (N), (N)) v (n)", "N", n))
		t.readAll()
		for range 2 {
			t.upkeep()
			t.readAll()
		}
	}
	t.enqueue(copies(2, dibs.NewJob{Queue: "other", Kind: "k"})...)
	t.finish(t.claimOne(dibs.ClaimRequest{Queue: "other"}).Lease().Complete(nil))
	t.upkeep()
	minutes, err := t.db.History(t.ctx, []string{"other"}, 0)
	t.must(err)
	var enqueued, succeeded int64
	for _, m := range minutes {
		enqueued, succeeded = enqueued+m.Enqueued, succeeded+m.Succeeded
	}
	equal(t, "enqueued to the other queue, and completed there", []int64{enqueued, succeeded}, []int64{2, 1})
	times, err := t.db.Times(t.ctx, "q")
	t.must(err)
	equal(t, "completed jobs whose times are known", times.Jobs, 1)
}
