package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/internal/lab/mytest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/mysql"
)

// execute runs statements of a program beside the store.
func execute(t *testing.T, on dibs.SQLTx, query string, args ...any) {
	t.Helper()
	if _, err := on.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// program is a pool of connections with the settings that the server gives, as other programs have: REPEATABLE READ among them.
func program(t testing.TB, address string) *sql.DB {
	t.Helper()
	config, err := driver.ParseDSN(address)
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = &driver.NopLogger{}
	connector, err := driver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // it may have ended
	return tx
}

// payloads claims jobs of a queue, and returns their payloads.
func payloads(t *testing.T, s *mysql.Store, queue string) []string {
	t.Helper()
	jobs, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: 5_000, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, j := range jobs {
		all = append(all, string(j.Payload))
	}
	return all
}

func inInbox(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "select count(*) from dibs_inbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func hasNoDamage(t *testing.T, s *mysql.Store) {
	t.Helper()
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check: %q, %v", found, err)
	}
}

// A job exists if the transaction commits that has inserted it into the inbox. Open transactions keep no other rows waiting.
func TestAJobOfTheInboxExistsOnceItsTransactionCommits(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s, db := openStore(t, address), program(t, address)
	const insert = "insert into dibs_inbox (queue, payload) values ('q', ?)"
	open, undone := begin(t, db), begin(t, db)
	execute(t, open, insert, "1")
	execute(t, undone, insert, "2")
	execute(t, db, insert, "3")
	if got := payloads(t, s, "q"); !slices.Equal(got, []string{"3"}) {
		t.Errorf("a claim gets %q beside open transactions", got)
	}
	if err := errors.Join(undone.Rollback(), open.Commit()); err != nil {
		t.Fatal(err)
	}
	if got := payloads(t, s, "q"); !slices.Equal(got, []string{"1"}) || inInbox(t, db) != 0 {
		t.Errorf("a claim gets %q once the transactions have ended", got)
	}
	hasNoDamage(t, s)
}

// Each column has its default, and each reaches the job.
func TestColumnsOfTheInboxReachTheJob(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s, db := openStore(t, address), program(t, address)
	execute(t, db, "insert into dibs_inbox () values ()")
	execute(t, db, "insert into dibs_inbox (queue, kind, payload, metadata, group_key, unique_key) values ('', '', '', '', '', '')")
	execute(t, db, `insert into dibs_inbox (kind, payload, priority, delay, max_attempts, group_key, unique_key, unique_until, unique_for, metadata)
		values ('é', '{"a": 1}', 7, 3600.5, 3, 'g', 'u', 'claimed', 60, '{"b": 2}')`)
	execute(t, db, "set session time_zone = '+05:00'")
	execute(t, db, "insert into dibs_inbox (kind, run_at) values ('at', '2037-01-02 05:00:00.25')")
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := s.List(t.Context(), admin.Filter{Queue: "default"})
	if err != nil || len(page.Jobs) != 4 {
		t.Fatalf("there are %d jobs, %v", len(page.Jobs), err)
	}
	slices.SortFunc(page.Jobs, func(a, b *dibs.RawJob) int { return int(a.ID - b.ID) })
	for _, j := range page.Jobs[:2] {
		if j.Kind != "default" || string(j.Payload) != "null" || j.Priority != dibs.DefaultPriority || j.Group != "" || j.UniqueKey != "" || j.Metadata != nil {
			t.Errorf("without values a job is %+v", j)
		}
	}
	j := page.Jobs[2]
	if j.Kind != "é" || string(j.Payload) != `{"a": 1}` || string(j.Metadata) != `{"b": 2}` || j.Priority != 7 || j.MaxAttempts != 3 ||
		j.Group != "g" || j.UniqueKey != "u" || j.UniqueUntil != dibs.UntilClaimed || j.RunAt.Before(j.CreatedAt.Add(59*time.Minute)) {
		t.Errorf("the job is %+v", j)
	}
	if at := page.Jobs[3].RunAt; !at.Equal(time.Date(2037, 1, 2, 0, 0, 0, 250_000_000, time.UTC)) {
		t.Errorf("a time in the session's zone becomes %v", at)
	}
	hasNoDamage(t, s)
}

// What constraints refuse, the program learns from its insert, whether or not its session is strict.
func TestTheInboxRefusesWhatConstraintsCan(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	openStore(t, address)
	db := program(t, address)
	for _, mode := range []string{"strict_trans_tables", ""} {
		db.SetMaxOpenConns(1)
		execute(t, db, "set session sql_mode = '"+mode+"'")
		for values, name := range map[string]string{
			"(payload) values (' ')": "inbox_payload_is_json",
			"(payload) values ('{')": "inbox_payload_is_json",
			"(payload) values (concat(repeat('[', 40), repeat(']', 40)))":     "inbox_payload_is_json",
			"(queue) values (repeat('é', 128))":                               "inbox_names_are_up_to_255_bytes",
			"(kind) values (repeat('x', 256))":                                "inbox_names_are_up_to_255_bytes",
			"(group_key) values (repeat('x', 256))":                           "inbox_names_are_up_to_255_bytes",
			"(priority) values (-1)":                                          "inbox_priority_is_0_to_32767",
			"(priority) values (32768)":                                       "inbox_priority_is_0_to_32767",
			"(delay) values (-0.5)":                                           "inbox_delay_is_0_to_10years",
			"(delay) values (315360000.1)":                                    "inbox_delay_is_0_to_10years",
			"(delay, run_at) values (1, now())":                               "inbox_has_delay_or_run_at_not_both",
			"(max_attempts) values (1000001)":                                 "inbox_max_attempts_is_0_to_1000000",
			"(unique_key) values (repeat('x', 513))":                          "inbox_unique_key_is_up_to_512_bytes",
			"(unique_until) values ('never')":                                 "inbox_unique_until_is_finished_or_claimed",
			"(unique_for) values (-1)":                                        "inbox_unique_for_is_0_to_10years",
			"(if_held) values ('drop')":                                       "inbox_if_held_is_keep_replace_or_push",
			"(delay_limit) values (-1)":                                       "inbox_delay_limit_is_0_to_10years",
			"(metadata) values ('[]')":                                        "inbox_metadata_is_a_json_object_up_to_16384_bytes",
			`(metadata) values (concat('{"a": "', repeat('x', 16400), '"}'))`: "inbox_metadata_is_a_json_object_up_to_16384_bytes",
		} {
			_, err := db.ExecContext(t.Context(), "insert into dibs_inbox "+values)
			var refused *driver.MySQLError
			if !errors.As(err, &refused) || refused.Number != 4025 || !strings.Contains(refused.Message, "`"+name+"`") {
				t.Errorf("with sql_mode '%s' %s: %v, want an error 4025 of %s", mode, values, err, name)
			}
		}
	}
	if n := inInbox(t, db); n != 0 {
		t.Errorf("%d rows were inserted", n)
	}
}

// What only the store can refuse becomes a dead job that says why, and keeps nobody else's waiting.
func TestWhatIsRefusedLaterBecomesADeadJob(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s, db := openStore(t, address), program(t, address)
	const secret = "postgres://u:secret@h/db"
	cases := []struct{ columns, values, queue, payload, says string }{
		{"queue, payload", "'q', '\"\\\\x\"'", "q", `"\"\\x\""`, "refused: payload: is not valid JSON"},
		{"queue, payload", "'q', concat('\"', repeat('x', 1048576), '\"')", "q", "", "refused: payload: is 1048578 bytes, the limit of queue \"q\" is 1048576"},
		{"queue, payload", "concat('q', char(10)), '1'", "default", "1", "refused: queue: must not contain control characters"},
		{"queue, payload", "'" + secret + "', '2'", "default", "2", "refused: queue: must not contain ://"},
		{"queue, kind", "'q', concat('k', char(0))", "q", "null", "refused: kind: must not contain control characters"},
		{"queue, group_key", "'q', concat('g', char(7))", "q", "null", "refused: group: must not contain control characters"},
		{"queue, unique_until", "'q', 'finished'", "q", "null", "refused: unique_until: needs a unique_key"},
		{"queue, unique_key, unique_window", "'q', 'u', 'day in Atlantis'", "q", "null", "refused: unique_window: "},
		{"queue, unique_key, if_held, delay", "'q', 'u', 'push', 1", "q", "null", "refused: delay_limit: is missing"},
		{"queue, metadata", "'q', '{\"dibs.schedule\": \"s\"}'", "q", "null", "refused: metadata: must not have members"},
	}
	for _, c := range cases {
		execute(t, db, "insert into dibs_inbox ("+c.columns+") values ("+c.values+")")
		execute(t, db, "insert into dibs_inbox (queue, payload) values ('good', '1')")
	}
	if got := payloads(t, s, "good"); len(got) != len(cases) {
		t.Errorf("%d good jobs of %d were enqueued", len(got), len(cases))
	}
	page, err := s.List(t.Context(), admin.Filter{State: dibs.Dead})
	if err != nil || len(page.Jobs) != len(cases) || inInbox(t, db) != 0 {
		t.Fatalf("there are %d dead jobs, and %d rows in the inbox, %v", len(page.Jobs), inInbox(t, db), err)
	}
	slices.SortFunc(page.Jobs, func(a, b *dibs.RawJob) int { return int(a.ID - b.ID) })
	for i, c := range cases {
		j, err := s.Get(t.Context(), page.Jobs[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		if j.Queue != c.queue || c.payload != "" && string(j.Payload) != c.payload || len(j.Errors) != 1 || !strings.HasPrefix(j.Errors[0].Error, c.says) {
			t.Errorf("%s: the dead job is in queue %q with payload %.60s and %+v, want %s", c.values, j.Queue, j.Payload, j.Errors, c.says)
		}
		if strings.Contains(fmt.Sprintf("%+v", *j), "secret") {
			t.Errorf("the dead job shows a password: %+v", j)
		}
	}
	hasNoDamage(t, s)
	if got, err := s.Requeue(t.Context(), []int64{page.Jobs[1].ID}, time.Time{}); err != nil || len(got) != 1 {
		t.Errorf("requeued %v, %v", got, err)
	}
	hasNoDamage(t, s)
}

// A unique key that an open transaction has locked keeps only the rows with that key waiting, and a queue that it makes only
// those of the queue. Then they do what they ask for.
func TestAHeldKeyKeepsOnlyItsRowsWaiting(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s, db := openStore(t, address), program(t, address)
	if _, err := s.ChangeQueue(t.Context(), "q", func(*dibs.Queue) error { return nil }); err != nil {
		t.Fatal(err)
	}
	making := begin(t, s.DB())
	if _, err := s.SQLTx(making).Enqueue(t.Context(), []dibs.NewJob{{Queue: "new", Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	execute(t, db, "insert into dibs_inbox (queue, payload) values ('new', '4')")
	tx := begin(t, s.DB())
	held, err := s.SQLTx(tx).Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k", UniqueKey: "u", Delay: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, db, "insert into dibs_inbox (queue, payload, unique_key) values ('q', '1', 'u')")
	execute(t, db, "insert into dibs_inbox (queue, payload, unique_key, if_held) values ('q', '2', 'u', 'replace')")
	execute(t, db, "insert into dibs_inbox (queue, payload, unique_key) values ('q', '3', 'other')")
	if got := payloads(t, s, "q"); !slices.Equal(got, []string{"3"}) || inInbox(t, db) != 3 {
		t.Errorf("a claim gets %q, and the inbox has %d rows", got, inInbox(t, db))
	}
	if err := errors.Join(tx.Commit(), making.Rollback()); err != nil {
		t.Fatal(err)
	}
	if got := payloads(t, s, "q"); !slices.Equal(got, []string{"2"}) || inInbox(t, db) != 0 {
		t.Errorf("a claim gets %q, and the inbox has %d rows", got, inInbox(t, db))
	}
	if got := payloads(t, s, "new"); !slices.Equal(got, []string{"4"}) {
		t.Errorf("a claim from the new queue gets %q", got)
	}
	if j, err := s.Get(t.Context(), held[0].ID); err != nil || j.State != dibs.Running {
		t.Errorf("the holder is %+v, %v", j, err)
	}
	hasNoDamage(t, s)
}

// A waiting worker is told of rows, also of a queue that does not exist yet.
func TestRowsOfTheInboxWake(t *testing.T) {
	needs.Race(t)
	t.Parallel()
	address := mytest.Address(t)
	s, db := openStore(t, address), program(t, address)
	for _, columns := range []string{"(queue) values ('q')", "(queue, group_key) values ('q', 'g')", "(queue, delay) values ('q', 0.01)"} {
		wake, stop := s.Wakeups("q")
		execute(t, db, "insert into dibs_inbox "+columns)
		for len(payloads(t, s, "q")) == 0 {
			select {
			case <-wake:
			case <-t.Context().Done():
				t.Fatal("nobody was told")
			}
		}
		stop()
	}
}

// Many rows and large ones are taken in parts, in the order in which they stand there.
func TestManyRowsAreTakenInTheirOrder(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s, err := mysql.Open(t.Context(), address, mysql.Options{Prefix: "other_"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db := program(t, address)
	execute(t, db, "insert into other_inbox (queue, payload, group_key) select 'q', seq, if(seq % 7 = 0, seq, null) from seq_1_to_1700")
	execute(t, db, "insert into other_inbox (queue, payload) select 'large', concat('\"', repeat('\"', 0), repeat('x', 1000000), seq, '\"') from seq_1_to_9")
	for range 20 { // one call may have no time for all
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := payloads(t, s, "q")
	if !slices.IsSortedFunc(got, func(a, b string) int { return len(a)*10_000 - len(b)*10_000 + strings.Compare(a, b) }) || len(got) != 1700 {
		t.Errorf("%d jobs were claimed: %.200q", len(got), got)
	}
	if got := payloads(t, s, "large"); len(got) != 9 {
		t.Errorf("%d large jobs were claimed", len(got))
	}
	hasNoDamage(t, s)
}

// A look at the inbox and a transaction that takes rows read no more, however many rows stand there.
func TestLooksAtTheInboxReadAFewRows(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	reads := func(name string, args ...any) (n int) {
		for range 2 { // the first run also opens the table
			var err error
			if n, err = s.ReadBy(context.WithoutCancel(t.Context()), name, args...); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	execute(t, s.DB(), "insert into dibs_inbox (queue) select 'q' from seq_1_to_20")
	few, some := reads("inbox_waiting", "[]"), reads("inbox", "[1, 2]", 10, 1<<20)
	execute(t, s.DB(), "insert into dibs_inbox (queue) select 'q' from seq_1_to_5000")
	if n := reads("inbox_waiting", "[]"); n > few {
		t.Errorf("a look reads %d rows of 20, and %d of 5,020", few, n)
	}
	if n := reads("inbox", "[1, 2]", 10, 1<<20); n > some {
		t.Errorf("taking ten rows reads %d of 20, and %d of 5,020", some, n)
	}
}

// A process that stands still while it takes rows keeps others from taking them only until the server ends its transaction.
func TestAFrozenProcessDoesNotKeepTheInboxForLong(t *testing.T) {
	t.Parallel()
	address := mytest.Address(t)
	s, err := mysql.Open(t.Context(), address+"?idle_transaction_timeout=1", mysql.Options{})
	if err != nil {
		t.Fatal(err)
	}
	frozen, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		s.Close()
	})
	if err := s.StandStill(frozen); err != nil {
		t.Fatal(err)
	}
	other := openStore(t, address)
	execute(t, other.DB(), "insert into dibs_inbox (queue, payload) values ('q', '1')")
	for len(payloads(t, other, "q")) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	var n int
	if err := s.DB().QueryRowContext(t.Context(), "select @@idle_transaction_timeout").Scan(&n); err != nil || n != 0 {
		t.Errorf("a caller's connection has idle_transaction_timeout %d, %v", n, err)
	}
}

// Whatever is wrong with the inbox, jobs that wait are claimed. A claim that finds none says what it is.
func TestABrokenInboxKeepsNoJobsWaiting(t *testing.T) {
	t.Parallel()
	s := openStore(t, mytest.Address(t))
	if _, err := s.Enqueue(t.Context(), []dibs.NewJob{{Queue: "q", Kind: "k", Payload: 1}}); err != nil {
		t.Fatal(err)
	}
	execute(t, s.DB(), "rename table dibs_inbox to elsewhere")
	if got := payloads(t, s, "q"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("a claim gets %q", got)
	}
	if _, err := s.Claim(t.Context(), dibs.ClaimRequest{Queue: "q", Worker: "w", N: 1}); !errors.Is(err, dibs.ErrSchema) {
		t.Errorf("a claim that finds nothing fails with %v", err)
	}
}
