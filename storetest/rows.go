package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/checks"
)

// Somebody writes to the tables with SQL of his own. Invariants: what a constraint refuses says
// why; no row keeps others from being claimed, listed or counted; a worker calls no handler for a
// job that cannot be read, and ends it as dead with the reason; no job waits or runs for ever
// unseen; counts are never below zero, and right again after the next upkeep.
var rowCases = []oneCase{
	{"what a constraint can refuse is refused, and named", rowsRefused},
	{"rows that break the rules hide no others, and end", rowsBorne},
	{"texts that SQL has changed are shown as strings, also of ended jobs", rowsShown},
	{"counts are right again after rows were inserted by hand", rowsInserted},
	{"counts are right again after all rows were deleted by hand", rowsDeleted},
	{"a job that runs without a claim ends with its lease", rowsWithoutClaim},
	{"repair mends all jobs at once that would never end", rowsRepairedAtOnce},
	{"a worker whose claim was deleted by hand finishes its jobs", rowsClaimDeleted},
	{"a group goes on by itself whose first job was deleted by hand", rowsOfGroups},
	{"a queue whose settings were deleted by hand has the default ones", rowsOfQueues},
	{"a job with the id of an ended one keeps no other from its end", rowsWithUsedID},
	{"a schedule or worker that cannot be read hides no other", rowsBesides},
	{"times and counts that cannot be right hide nothing of the others", rowsOfUpkeep},
	{"a job whose times or counts cannot be right ends, and so do those beside it", rowsOfWrongTimes},
}

// bareRow holds the columns of a job that waits, as somebody would insert it.
func (t *test) bareRow(columns map[string]string) string {
	all := map[string]string{
		"queue": "'q'", "kind": "'bad'", "payload": "'1'", "priority": "100", "gate": "0", "max_attempts": "3",
		"run_at": t.at(0), "created_at": t.at(0),
	}
	maps.Copy(all, columns)
	names := slices.Sorted(maps.Keys(all))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = all[name]
	}
	return fmt.Sprintf("insert into %%sjob (%s) values (%s)", strings.Join(names, ", "), strings.ReplaceAll(strings.Join(values, ", "), "%", "%%"))
}

// at is an expression for a time from now, in whole hours.
func (t *test) at(hours int) string {
	micros := int64(hours) * time.Hour.Microseconds()
	return t.one(
		fmt.Sprintf("now() + interval '%d hours'", hours),
		fmt.Sprintf("unixepoch() * 1000000 + %d", micros),
		fmt.Sprintf("timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) + %d", micros),
	)
}

// token is an expression for a token of a lease.
func (t *test) token() string {
	return t.one("gen_random_uuid()", "randomblob(16)", "unhex(md5(rand()))")
}

// one returns the first of some texts on PostgreSQL, and the second on SQLite. MariaDB has the third, or the second if
// there are only two.
func (t *test) one(postgres, sqlite string, mariadb ...string) string {
	switch {
	case t.Database == PostgreSQL.Database:
		return postgres
	case t.Database == MariaDB.Database && len(mariadb) > 0:
		return mariadb[0]
	}
	return sqlite
}

// refuse expects that a statement is refused with a text, and undone. MariaDB may also say that a number is out of range.
func (t *test) refuse(statement, text string) {
	t.Helper()
	tx := t.beginTx()
	err := tx.Exec(t.ctx, t.tables(statement))
	ranged := t.Database == MariaDB.Database && err != nil && strings.Contains(err.Error(), "Out of range")
	if t.must(tx.Rollback()); err == nil || !strings.Contains(err.Error(), text) && !ranged {
		t.Errorf("%s: it gave %v, want an error with %q", statement, err, text)
	}
}

// refuseUpdate expects that an update is refused by a constraint that the database has: MariaDB converts values, and lets no
// constraint name an id that it gives itself.
func (t *test) refuseUpdate(set, constraint string) {
	t.Helper()
	if t.Database != MariaDB.Database || !strings.HasPrefix(constraint, "cannot store") && !strings.HasPrefix(constraint, "job_id") {
		t.refuse("update %s"+set, constraint)
	}
}

func rowsRefused(t *test) {
	t.enqueue(grouped("g"), dibs.NewJob{Queue: "q", Kind: "k"})
	t.must(t.db.ChangeGroup(t.ctx, "default", "g", dibs.GroupChange{Limit: new(2), Rate: &dibs.Rate{N: 1, Per: time.Minute}}.Apply))
	_, err := t.db.SetSchedule(t.ctx, dibs.Schedule{Name: "s", Spec: "every 1h", Kind: "k"})
	t.must(err)
	micros := t.one(" * interval '1 microsecond'", "")
	for set, constraint := range map[string]string{
		"queue set concurrency = -1":                                             "queue_concurrency_is_0_to_1000000",
		"queue set rate_n = 5":                                                   "queue_rate_is_n_per_1s_to_31days_with_burst",
		"queue set rate_n = -5":                                                  "queue_rate_is_n_per_1s_to_31days_with_burst",
		"queue set group_limit = 0":                                              "queue_group_limit_is_1_to_1000000",
		"queue set claim_order = 'random'":                                       "queue_claim_order_is_fifo_lifo_or_fair",
		"queue set lease = -1" + micros:                                          "queue_lease_is_100ms_to_24h",
		"queue set lease = 9000000000000" + micros:                               "queue_lease_is_100ms_to_24h",
		"queue set job_timeout = -1" + micros:                                    "queue_job_timeout_is_0_to_10years",
		"queue set max_attempts = 0":                                             "queue_max_attempts_is_1_to_1000000",
		"queue set backoff_factor = " + t.one("'NaN'", "9e999", "9e99"):          "queue_backoff_is_1ms_to_10years_factor_1_to_1000_jitter_0_to_1",
		"queue set backoff_base = -1" + micros:                                   "queue_backoff_is_1ms_to_10years_factor_1_to_1000_jitter_0_to_1",
		"queue set backoff_jitter = 9":                                           "queue_backoff_is_1ms_to_10years_factor_1_to_1000_jitter_0_to_1",
		"queue set keep_dead = -1" + micros:                                      "queue_keeps_finished_jobs_for_0_to_10years",
		"queue set payload_limit = 0":                                            "queue_payload_limit_is_2_to_67108864",
		"group_limit set places = -1":                                            "group_limit_is_0_to_1000000",
		"rate set n = -5":                                                        "rate_is_n_per_1s_to_31days_with_burst",
		"rate set n = 5, per = 0" + micros:                                       "rate_is_n_per_1s_to_31days_with_burst",
		"schedule set settings = 'nonsense'":                                     t.one("type json", "schedule_settings_is_a_json_object"),
		"schedule set settings = '[]'":                                           "schedule_settings_is_a_json_object",
		"schedule set payload = 'nonsense'":                                      t.one("type json", "schedule_payload_is_json"),
		"schedule set metadata = '[]'":                                           "schedule_metadata_is_a_json_object",
		"schedule set next_at = " + t.one("'-infinity'", "-9000000000000000000"): "schedule_times_are_in_years_1970_to_9999",
		"job set run_at = " + t.one("'infinity'", "9000000000000000000"):         t.one("job_id_from_1_on_run_at_in_years_1_to_9999_queue_1_to_255_bytes", "job_run_at_is_in_years_1_to_9999"),
		"job set id = 0":                                                         t.one("job_id_from_1_on_run_at_in_years_1_to_9999_queue_1_to_255_bytes", "job_id_is_1_to_9007199254740991"),
		"job set queue = ''":                                                     t.one("job_id_from_1_on_run_at_in_years_1_to_9999_queue_1_to_255_bytes", "job_names_are_1_to_255_long"),
		"job set queue = null":                                                   t.one("null value", "NOT NULL", "cannot be null"),
	} {
		t.refuseUpdate(set, constraint)
	}
	if t.Database == PostgreSQL.Database { // there, each check of a job costs every statement that writes jobs
		t.refuseEnded()
		return
	}
	for set, constraint := range map[string]string{
		"id = -5":                    "job_id_is_1_to_9007199254740991",
		"id = 9223372036854775807":   "job_id_is_1_to_9007199254740991",
		"kind = ''":                  "job_names_are_1_to_255_long",
		"group_key = ''":             "job_names_are_1_to_255_long",
		"priority = -1":              "job_priority_is_0_to_32767",
		"priority = 40000":           "job_priority_is_0_to_32767",
		"priority = 'x'":             "cannot store TEXT",
		"priority = 1.5":             "cannot store REAL",
		"payload = x'7b7d'":          "cannot store BLOB",
		"gate = 7":                   "job_gate_fits_group_and_token",
		"gate = 1, group_key = null": "job_gate_fits_group_and_token",
		"gate = 3":                   "job_gate_fits_group_and_token",
		"attempt = -1":               "job_excused_is_0_to_attempt",
		"attempt = 30":               "job_has_attempts_left_until_it_is_claimed",
		"attempt = 9223372036854775807, excused = 9223372036854775807": "job_excused_is_0_to_attempt",
		"max_attempts = 0":     "job_max_attempts_is_1_to_1000000",
		"lease_until = 5":      "job_runs_with_token_lease_and_start",
		"token = " + t.token(): "job_runs_with_token_lease_and_start",
		"token = x'11', lease_until = 5, claimed_at = 5": t.one("", "job_runs_with_token_lease_and_start", "job_gate_fits_group_and_token"),
		"cancel_requested = 7":                           "job_flags_are_0_or_1",
		"unique_held = 1":                                "job_holds_a_unique_key_that_it_has",
	} {
		t.refuseUpdate("job set "+set, constraint)
	}
	t.refuse("update %squeue set paused = 5", "queue_flags_are_0_or_1")
	t.refuse("insert into %sclaim (token, queue, worker, check_at, ids) values ("+t.token()+", 'q', 'w', 0, 'nonsense')", "claim_ids_is_a_json_array")
	t.refuse("update %stally set waiting = 9000000000000000000", "tally_counts_are_below_1e15")
}

// borne is a row that no constraint refuses, and what becomes of it.
type borne struct {
	columns map[string]string
	ends    dibs.State // the state in which a worker leaves the job; empty: the job keeps waiting, which is right
	fault   string     // what its last error says
}

// nested is an expression for a text of n arrays inside each other.
func (t *test) nested(n int) string {
	if t.Database == SQLite.Database {
		return fmt.Sprintf("printf('%%.*c%%.*c', %d, '[', %d, ']')", n, n)
	}
	return fmt.Sprintf("repeat('[', %d) || repeat(']', %d)", n, n)
}

func (t *test) borneRows() []borne {
	char, repeat := t.one("chr", "char"), t.one("repeat('k', 200)", "replace(hex(zeroblob(100)), '0', 'k')", "repeat('k', 200)")
	bad := func(column, value, fault string) borne {
		return borne{map[string]string{column: value}, dibs.Dead, "column " + column + " " + fault}
	}
	fine := func(column, value string) borne {
		return borne{map[string]string{column: value}, dibs.Completed, ""}
	}
	rows := []borne{
		bad("payload", "'hello'", "is not valid JSON"),
		bad("payload", "''", "is missing or empty"),
		bad("payload", `'"\x"'`, "is not valid JSON"),
		bad("payload", `'{"a":1}{'`, "is not valid JSON"),
		bad("payload", "'\"' || "+char+"(1) || '\"'", "is not valid JSON"),
		bad("payload", t.nested(9999), "is nested more than 1000 deep"),
		bad("metadata", `'{"a":' || `+t.nested(1000)+` || '}'`, "is nested more than 1000 deep"),
		bad("metadata", "'hello'", "is not valid JSON"),
		bad("metadata", "'[1]'", "must be a JSON object"),
		bad("metadata", "''", "is not valid JSON"),
		fine("payload", `'"\ud800\u0000"'`), // encoding/json reads it
		fine("kind", "'a' || "+char+"(27) || "+char+"(10) || 'b'"),
		fine("kind", repeat),
		fine("unique_key", repeat),
		fine("unique_until", "'someday'"),
		fine("worker", "'a' || "+char+"(27)"),
		fine("errors", `'{"a":1}'`),
		fine("errors", `'["a", 7, null]'`),
		fine("progress", "'[1, 2]'"),
		fine("created_at", t.one("'-infinity'", "-9000000000000000000")),
		fine("created_at", t.one("'200000-01-01'", "9000000000000000000")),
		fine("run_at", t.one("'0001-01-01 00:00:00Z'", "-62135596800000000")),
		{map[string]string{"run_at": t.one("'9999-12-31 23:59:59Z'", "253402300799999999")}, "", ""},
	}
	if t.Database != PostgreSQL.Database {
		return append(rows,
			bad("payload", "'\"' || char(0) || '\"'", "is not valid JSON"),
			bad("payload", t.one("", "cast(x'22ff22' as text)", "x'22ff22'"), "is not valid UTF-8"),
			fine("kind", t.one("", "cast(x'61ff' as text)", "x'61ff'")))
	}
	running := map[string]string{"token": "gen_random_uuid()", "lease_until": t.at(-1), "claimed_at": t.at(-1), "attempt": "1"}
	damaged := func(column, value string) borne {
		r := maps.Clone(running)
		r[column] = value
		return borne{r, dibs.Completed, ""}
	}
	return append(rows,
		bad("payload", "null", "is missing or empty"),
		fine("priority", "-1"), fine("priority", "-32768"),
		fine("gate", "7"),
		fine("gate", "-1"),
		fine("gate", "1"),
		fine("gate", "2"),
		fine("gate", "3"),
		fine("kind", "repeat('k', 10000)"),
		fine("max_attempts", "0"),
		fine("max_attempts", "-5"),
		fine("attempt", "-3"),
		fine("attempt", "2147483647"),
		fine("excused", "-9"),
		fine("excused", "2147483647"),
		fine("unique_held", "true"),
		fine("lease_until", t.at(1)),
		fine("group_key", "''"),
		damaged("lease_until", "null"),
		damaged("lease_until", "'infinity'"),
		damaged("claimed_at", "null"),
		damaged("gate", "3"),
		damaged("gate", "7"),
		damaged("attempt", "1"))
}

// readAll makes every call that reads, and encodes what they return.
func (t *test) readAll() {
	t.Helper()
	encode := func(what string, v any, err error) {
		t.Helper()
		t.must(err)
		text, err := json.Marshal(v)
		if err != nil || !utf8.Valid(text) || !json.Valid(text) {
			t.Errorf("%s cannot be encoded: %v", what, err)
		}
	}
	for _, state := range append(states, "") {
		page, err := t.db.List(t.ctx, admin.Filter{State: state, Limit: 1000})
		encode("the list of "+string(state), page, err)
		for _, j := range page.Jobs {
			one, err := t.db.Get(t.ctx, j.ID)
			encode(fmt.Sprint("job ", j.ID), one, err)
		}
	}
	all, err := t.db.Stats(t.ctx)
	encode("stats", all, err)
	for _, q := range all {
		if min(q.Waiting, q.Scheduled, q.Blocked, q.Running, q.Completed, q.Dead, q.Cancelled) < 0 {
			t.Errorf("a count is below zero: %+v", q)
		}
	}
	workers, err := t.db.Workers(t.ctx)
	encode("workers", workers, err)
	queues, err := t.db.Queues(t.ctx)
	encode("queues", queues, err)
	schedules, err := t.db.Schedules(t.ctx)
	encode("schedules", schedules, err)
	kinds, err := t.db.DueKinds(t.ctx, "q")
	encode("kinds", kinds, err)
	_, err = t.db.Due(t.ctx, []string{"q"}, nil)
	t.must(err)
	for _, queues := range [][]string{nil, {"q"}} {
		minutes, err := t.db.History(t.ctx, queues, 0)
		encode("history", minutes, err)
	}
	failures, err := t.db.Failures(t.ctx, admin.FailureFilter{Queues: []string{"q"}})
	encode("failures", failures, err)
	times, err := t.db.Times(t.ctx, "q")
	encode("times", times, err)
	changes, err := t.db.Changes(t.ctx, 10)
	encode("changes", changes, err)
}

// work has a worker run all jobs until those have ended, and returns the payloads that handlers got.
func (t *test) work(jobs []int64) (payloads []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.ctx)
	var mu sync.Mutex
	w := &dibs.Worker{Store: t.db, Queue: "q", Concurrency: 4, Hooks: dibs.Hooks{Log: slog.New(slog.DiscardHandler)}}
	run := func(payload json.RawMessage) error {
		mu.Lock()
		defer mu.Unlock()
		payloads = append(payloads, string(payload))
		return nil
	}
	dibs.Handle(w, "bad", func(_ context.Context, j *dibs.Job[json.RawMessage]) error { return run(j.Payload) })
	w.HandleRaw("", func(_ context.Context, j *dibs.RawJob) error { // as handlers do that pass a payload on to others
		if checks.Payload(j); j.Fault != "" {
			return dibs.Die(errors.New("not run: " + j.Fault))
		}
		return run(j.Payload)
	})
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for _, id := range jobs {
		_, err := t.db.Wait(t.ctx, id)
		t.must(err)
	}
	stop()
	t.must(<-done)
	return payloads
}

// upkeep sweeps as a process that has just started.
func (t *test) upkeep() {
	t.Helper()
	_, err := t.Another(t).Sweep(t.ctx)
	t.must(err)
}
