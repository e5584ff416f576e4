package database

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-queue/dibs"
	"github.com/dibs-queue/dibs/admin"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
	"github.com/dibs-queue/dibs/internal/lab/pgtest"
	"github.com/dibs-queue/dibs/internal/needs"
	"github.com/dibs-queue/dibs/internal/open"
	"github.com/jackc/pgx/v5"
)

// doctor runs the command, and returns its findings and exit code.
func (c *cli) doctor(args ...string) ([]ailment, int) {
	c.T.Helper()
	r := c.Run("", append([]string{"doctor", "--json"}, args...)...)
	var got struct{ Findings []ailment }
	if err := json.Unmarshal([]byte(r.Out), &got); err != nil || r.Err != "" {
		c.T.Fatalf("dibs doctor: exit code %d, %v\n%s%s", r.Code, err, r.Out, r.Err)
	}
	if c.OnMariaDB() { // the tests' server does not write its log at each commit
		got.Findings = slices.DeleteFunc(got.Findings, func(f ailment) bool { return strings.HasPrefix(f.Text, "innodb_flush_log_at_trx_commit is 0") })
	}
	return got.Findings, r.Code
}

// finds checks that the doctor has a finding of that name, with all of the words in its text, and
// with the next command.
func (c *cli) finds(severity, name, next string, words ...string) {
	c.T.Helper()
	all, code := c.doctor()
	if severity == severityWrong && code != cmdline.ExitFailure {
		c.T.Errorf("something is wrong, and the exit code is %d", code)
	}
	for _, f := range all {
		lacks := f.Severity != severity || f.Name != name || f.Next != next
		for _, w := range words {
			lacks = lacks || !strings.Contains(f.Text, w)
		}
		if !lacks {
			return
		}
	}
	c.T.Errorf("nothing says %s %s %q, next %s:\n%+v", severity, name, words, next, all)
}

// findsNo checks that the doctor has no finding of that name.
func (c *cli) findsNo(name string) {
	c.T.Helper()
	all, _ := c.doctor()
	for _, f := range all {
		if f.Name == name {
			c.T.Errorf("the doctor says %+v", f)
		}
	}
}

// ago is a time in the database's SQL.
func (c *cli) ago(d time.Duration) string {
	switch {
	case c.OnMariaDB():
		return fmt.Sprintf("(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - %d)", d.Microseconds())
	case !c.OnPostgres():
		return fmt.Sprintf("(unixepoch() * 1000000 - %d)", d.Microseconds())
	}
	return fmt.Sprintf("(now() - interval '%d seconds')", int(d.Seconds()))
}

// set changes rows by SQL: each @ is replaced with a time that long ago.
func (c *cli) set(d time.Duration, text string) {
	c.T.Helper()
	c.BySQL(strings.ReplaceAll(text, "@", c.ago(d)))
}

// empty removes what the test has left, so that the check at its end finds nothing.
func (c *cli) empty() {
	c.T.Helper()
	for _, table := range []string{"job", "finished", "claim", "schedule", "worker", "edge", "ended_list"} {
		c.BySQL("delete from %s" + table)
	}
	c.Run("", "check", "--repair")
}

func TestDoctorOfAHealthyDatabase(t *testing.T) {
	t.Parallel()
	for kind, db := range map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "test.db"), "postgres": ""} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newCLI(t, db)
			if db == "" {
				c.DB = pgtest.NewServer(t).URL() // the shared one may have few connections left
			}
			c.OK("migrate")
			c.OK("enqueue", "mail", "1")
			c.Register("anna", 3, nil, "mail")
			c.OK("schedule", "add", "hourly", "--cron", "@hourly", "--queue", "mail")
			if got := c.OK("doctor"); !strings.HasPrefix(got, "Nothing is wrong.\nLooked at: 1 queue, 1 worker, 1 schedule, jobs and upkeep, ") || strings.Contains(got, "Not looked at") {
				t.Errorf("dibs doctor writes\n%s", got)
			}
			c.Has(c.Row(c.OK("doctor", "--json")), object{"findings": []any{}, "skipped": []any{}})
		})
	}
}

// Each way in which due jobs do not start, with the command that helps.
func TestDoctorFindsWhatHoldsUpQueues(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "it's; rm", "1")
		c.finds(severityNote, "no_worker", `dibs work 'it'\''s; rm' -- PROGRAM`, "queue it's; rm: ", "(1 job is due")
		c.set(20*time.Minute, "update %sjob set run_at = @")
		c.finds(severityWrong, "no_worker", `dibs work 'it'\''s; rm' -- PROGRAM`, "queue it's; rm: ", "(1 job is due, the oldest for 20m")
		c.set(0, "update %sjob set run_at = @")
		c.OK("pause", "it's; rm")
		if all, code := c.doctor(); code != cmdline.ExitOK || len(all) != 1 || all[0].Name != "paused" || all[0].Severity != severityNote {
			c.T.Errorf("of a paused queue without workers the doctor says %+v, exit code %d", all, code)
		}
		c.OK("resume", "it's; rm")
		c.OK("enqueue", "mail", "1")
		c.Register("anna", 1, nil, "mail", "it's; rm")
		c.findsNo("no_worker")
		c.findsNo("waits")
		c.set(20*time.Minute, "update %sjob set run_at = @ where queue = 'mail'")
		c.finds(severityWrong, "waits", "dibs ls mail --state waiting", "queue mail: 1 job is due, the oldest for 20m")
		if all, code := c.doctor("--max-wait", "30m"); code != cmdline.ExitOK {
			c.T.Errorf("with --max-wait 30m it is still wrong: %+v", all)
		}
		c.OK("pause", "mail")
		c.finds(severityNote, "paused", "dibs resume mail", "queue mail is paused (1 job is due, the oldest for 20m)")
		c.findsNo("waits")
		c.OK("resume", "mail")
		c.OK("enqueue", "mail", "2")
		c.OK("claim", "mail", "--worker", "anna", "--lease", "1h")
		c.set(20*time.Minute, "update %sjob set run_at = @ where queue = 'mail'")
		c.finds(severityWrong, "busy", "dibs workers --jobs", "all places of its workers are taken")
		w := c.Register("anna", 1, nil, "mail")
		w.State = dibs.WorkerStopped
		c.Put(w)
		c.Register("bernd", 9, []string{"png"}, "mail")
		c.finds(severityWrong, "no_worker_for_kind", "dibs ls mail --kind mail", "no worker of the queue handles kind mail")
		c.set(20*time.Minute, "update %sworker set seen_at = @")
		c.finds(severityNote, "lost_worker", "dibs workers", "worker bernd (process 1 on h) was last seen 20m ago")
		c.finds(severityWrong, "no_worker", "dibs work mail -- PROGRAM", "queue mail: ", "bernd was last seen 20m ago")
		c.empty()
	})
}

// A queue with very many scheduled jobs does not tell how many of its waiting jobs are due.
func TestDoctorCountsNoDueJobsThatItDoesNotKnow(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("enqueue", "mail", "1")
		c.OK("enqueue", "mail", "2")
		if r := c.Run(strings.Repeat("3\n", admin.ScheduledCap+1), "enqueue", "mail", "--lines", "--delay", "1h"); r.Code != cmdline.ExitOK {
			t.Fatal(r.Err)
		}
		c.finds(severityNote, "no_worker", "dibs work mail -- PROGRAM", "queue mail: ", "(some jobs are due, the oldest for ")
	})
}

// Between two starts nothing holds up a queue with a rate: it is slow on purpose all the same.
func TestDoctorKnowsThatARateHoldsUpAQueue(t *testing.T) {
	onEach(t, func(c *cli) {
		c.Register("anna", 9, nil, "mail", "news")
		for _, name := range []string{"ann", "bob", "cid"} {
			c.OK("enqueue", "mail", "1")
			c.OK("enqueue", "news", "1", "--group", name)
			c.OK("queue", "news", "--group", name, "--rate", "1000/s")
		}
		if c.OnMariaDB() { // groups get their places when somebody claims
			c.OK("claim", "news", "--kind", "none")
		}
		c.set(20*time.Minute, "update %sjob set run_at = @")
		c.OK("queue", "mail", "--rate", "1000/s")
		for _, queue := range []string{"mail", "news"} { // nothing has started: the rate does not explain it
			c.finds(severityWrong, "waits", "dibs ls "+queue+" --state waiting", "queue "+queue+": 3 jobs are due, the oldest for 20m")
			c.OK("claim", queue)
		}
		c.finds(severityNote, "rate", "dibs queue mail", "queue mail: the queue is held by ", "2 jobs are due, the oldest for 20m")
		c.findsNo("waits")
		c.empty()
	})
}

// A queue in which very many jobs die hides no other, and what was counted of a part of them is said to be of a part.
func TestDoctorFindsEachQueueWhereJobsDie(t *testing.T) {
	needs.Long(t)
	onEach(t, func(c *cli) {
		db, err := open.Database(c.T.Context(), open.URL(c.DB), open.Options{})
		if err != nil {
			c.T.Fatal(err)
		}
		defer db.Close()
		dieIn := func(queue string, n int) {
			_, err := db.Enqueue(c.T.Context(), slices.Repeat([]dibs.NewJob{{Queue: queue, Kind: "k"}}, n))
			if err != nil {
				c.T.Fatal(err)
			}
			list, err := db.Claim(c.T.Context(), dibs.ClaimRequest{Queue: queue, Worker: "w", N: n, Lease: time.Hour})
			if err != nil || len(list) != n {
				c.T.Fatal(len(list), err)
			}
			var outcomes []dibs.Outcome
			for i, j := range list {
				outcomes = append(outcomes, j.Lease().Die([]string{"boom", "boom", "bang"}[i%3]))
			}
			if err := db.Finish(c.T.Context(), outcomes); err != nil {
				c.T.Fatal(err)
			}
		}
		dieIn("a", dibs.MaxBatch)
		dieIn("b", 3)
		c.finds(severityWrong, "dead", "dibs failures a", "queue a: 10,000 jobs died in the last hour; of the last 1,000, 66", "had: boom")
		c.finds(severityNote, "dead", "dibs failures b", "queue b: 3 jobs died in the last hour, 2 of them with: boom")
	})
}

// Jobs that die, lose their leases or do not stop, with the most common error.
func TestDoctorFindsJobsThatGoWrong(t *testing.T) {
	needs.Long(t)
	onEach(t, func(c *cli) {
		c.Register("anna", 100, nil, "mail")
		for range 15 {
			c.OK("enqueue", "mail", "1")
		}
		for i := range 12 {
			job := c.Row(c.OK("claim", "mail"))
			text := fmt.Sprintf("connection to 10.0.%d.7:587 refused\x1b[31m", i)
			if i > 8 {
				text = "another error"
			}
			c.OK("finish", fmt.Sprint(job["id"]), job["token"].(string), "--dead", "--error", text)
		}
		c.finds(severityWrong, "dead", "dibs failures mail", "queue mail: 12 jobs died in the last hour, 9 of them with: connection to … refused")
		c.finds(severityWrong, "failing", "dibs ls mail --state dead", "queue mail: 12 of 12 attempts in the last")
		c.set(2*time.Hour, "update %sfinished set finished_at = @")
		c.findsNo("dead")

		db, err := open.Database(c.T.Context(), open.URL(c.DB), open.Options{})
		if err != nil {
			c.T.Fatal(err)
		}
		defer db.Close()
		for i := range 4 {
			if got := c.Row(c.OK("claim", "mail", "--worker", "bernd")); fmt.Sprint(got["id"]) != "13" {
				c.T.Fatalf("claimed %v", got)
			}
			if i == 3 {
				break
			}
			c.set(time.Minute, "update %sjob set lease_until = @ where id = 13")
			c.set(time.Minute, "update %sclaim set check_at = @")
			if i == 0 {
				c.Register("anna", 100, nil, "mail") // seen again, however slow this has been
				c.finds(severityWrong, "late_claims", "dibs workers", "leases of lost workers ended 6", "ago, and nobody has taken back their jobs (1 claim), though workers are there")
			}
			if _, err := db.Sweep(c.T.Context()); err != nil {
				c.T.Fatal(err)
			}
		}
		c.findsNo("late_claims")
		c.finds(severityWrong, "leases", "dibs show 13", "job 13 of queue mail: its lease has ended 3 times")
		c.OK("cancel", "13")
		c.findsNo("cancel")
		c.set(10*time.Minute, "update %sjob set claimed_at = @ where id = 13")
		c.finds(severityNote, "cancel", "dibs show 13", "job 13 of queue mail was asked to stop, and still runs after 10m", "bernd")
		c.BySQL("update %sjob set payload = '{broken' where id = 14")
		c.finds(severityNote, "damaged_job", "dibs show 14", "job 14 of queue mail cannot be run: its column payload is not valid JSON")
		c.BySQL("update %sjob set payload = '1'")
		c.BySQL("update %stally set dead = dead - 100")
		c.finds(severityNote, "miscounted", "dibs check --repair", "queue mail: its counts cannot be right")
		c.empty()
	})
}

func TestDoctorFindsUpkeepAndSchedulesThatAreLate(t *testing.T) {
	onEach(t, func(c *cli) {
		c.OK("schedule", "add", "nightly", "--cron", "@daily", "--queue", "mail")
		c.findsNo("late_schedule")
		c.set(10*time.Minute, "update %sschedule set next_at = @")
		c.finds(severityWrong, "late_schedule", "dibs work mail -- PROGRAM", "schedule nightly should have made a job 10m ago, as no worker is there")
		w := c.Register("anna", 1, nil, "other")
		c.finds(severityWrong, "late_schedule", "dibs schedule show nightly", "though workers are there")
		c.HasInOrder(c.OK("schedule", "show", "nightly"), "next", "(10m ago, late)", "(in ")
		c.HasInOrder(c.OK("schedule", "ls"), "(10m ago, late)")
		c.HasInOrder(c.OK("schedule", "next", "nightly", "-n", "2"), "(10m ago, late)", "(in ")
		if lines := c.Rows(c.OK("schedule", "next", "nightly", "-n", "2", "--json")); len(lines) != 2 || lines[0]["late"] != true || lines[1]["late"] != nil {
			c.T.Errorf("next ticks: %v", lines)
		}
		if got := c.OK("schedule", "next", "nightly", "-n", "2", "--cron", "@hourly"); strings.Contains(got, "late") {
			c.T.Errorf("next ticks by another spec: %s", got)
		}
		c.BySQL("update %sschedule set settings = '{}'")
		c.finds(severityWrong, "schedule_unreadable", "dibs schedule ls", "schedule nightly: ", "set it again, or delete it")
		c.OK("schedule", "rm", "nightly")
		c.OK("enqueue", "mail", "1")
		c.OK("cancel", "1")
		c.findsNo("late_history")
		c.set(48*time.Hour, "update %sfinished set finished_at = @")
		c.finds(severityNote, "late_history", "dibs workers", "finished jobs should have been deleted 24h ago, though workers are there")
		w.State = dibs.WorkerStopped
		c.Put(w)
		c.finds(severityNote, "late_history", "dibs work QUEUE -- PROGRAM", "as no worker is there")
		c.empty()
	})
}

// Every fact that a store may report has words, with a next command, also if its names are hostile.
func TestTheDoctorHasWordsForEveryFact(t *testing.T) {
	t.Parallel()
	const hostile = "a'b\";\x1b[31m\u202e\ndrop"
	files, err := filepath.Glob("../../../../*/sql/diagnose*.sql")
	if err != nil || len(files) < 9 {
		t.Fatalf("%v, %v", files, err)
	}
	const mariaDB = "mariadb " // marks what a MariaDB server has
	names := []string{"pooler", "wal", "reader", "writer", "free_pages", "network_file", "disk_full", "damaged"}
	for _, file := range files {
		server := ""
		if strings.Contains(filepath.ToSlash(file), "/mysql/") {
			server = mariaDB
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)select\s+(?:case when .* then '([a-z_]+)' else )?'([a-z_]+)'`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, server+m[2])
			if m[1] != "" {
				names = append(names, server+m[1])
			}
		}
	}
	elsewhere := "schedule_lock row_lock claims wake tally periods history flows completed cancelled view constraint function now index" // no facts, or the details of some
	for _, name := range names {
		var all []admin.Fact
		name, ok := strings.CutPrefix(name, mariaDB)
		if ok {
			all = append(all, admin.Fact{Name: "mariadb"})
		}
		if strings.Contains(elsewhere, name) || name == "reader" || name == "mariadb" {
			continue
		}
		var out strings.Builder
		d := medic{a: newApp(nil, &out, &out)}
		f := admin.Fact{Name: name, About: hostile, ID: 7, N: 8, Of: 9, Age: time.Hour, Text: hostile}
		switch name {
		case "late":
			f.About = "claims"
		case "setting":
			f.About = "fsync"
		case "role_setting":
			f.Text = "statement_timeout=" + hostile
		}
		if _, ok := mariaDBSettings[name]; ok {
			f.Name, f.About = "setting", name
		} else if f.Name == "setting" && len(all) > 0 {
			f.About = "read_only"
		}
		var q queueLook
		q.why.Stats, q.why.Queues = []admin.QueueStats{{Queue: hostile, Waiting: 1}}, []dibs.Queue{{Name: hostile}}
		d.jobs(&q, []admin.Fact{f})
		if found, ok := d.word(f, append(all, f)); ok {
			d.Findings = append(d.Findings, found)
		}
		if len(d.Findings)+len(d.Skipped) != 1 || len(d.Findings) == 1 && (d.Findings[0].Text == "" || d.Findings[0].Next == "" || d.Findings[0].Name == "" || d.Findings[0].Severity == "") {
			t.Errorf("the words for %s are %+v, %q", name, d.Findings, d.Skipped)
		}
		_ = d.report()
		if strings.ContainsAny(out.String(), "\x1b\u202e") || strings.Contains(out.String(), "\ndrop") {
			t.Errorf("%s: hostile names reach the terminal: %q", name, out.String())
		}
	}
}

func TestDoctorWithoutRightsOrDatabase(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	newCLI(t, address).OK("migrate")
	reader := newCLI(t, pgtest.Role(t, address, "grant usage on schema dibs to ROLE", "grant select on all tables in schema dibs to ROLE"))
	connectTo(t, address)
	if got := reader.OK("doctor"); !strings.Contains(got, "Looked at: 0 queues") || !strings.Contains(got, "of other roles: the role may not see them") {
		t.Errorf("for who may only read, dibs doctor writes\n%s", got)
	}
	blind := newCLI(t, pgtest.Role(t, address, "grant usage on schema dibs to ROLE", "grant select on dibs.migration to ROLE"))
	if got := blind.OK("doctor"); !strings.Contains(got, "Not looked at: the queues: the role") || !strings.Contains(got, "Not looked at: jobs and upkeep: the role") || !strings.Contains(got, "lacks a right") {
		t.Errorf("for who may not read, dibs doctor writes\n%s", got)
	}
	away := newCLI(t, "postgres://127.0.0.1:1/x")
	away.Fails(cmdline.ExitUnavailable, "", []string{"doctor"}, "no PostgreSQL server answers")
	bare := newCLI(t, pgtest.URL(t))
	bare.Fails(cmdline.ExitSchema, "", []string{"doctor"}, "dibs migrate")
	missing := onSQLiteFile(t)
	missing.Fails(cmdline.ExitSchema, "", []string{"doctor"}, "there is no database file")
}

func onSQLiteFile(t *testing.T) *cli {
	return newCLI(t, "sqlite:"+filepath.Join(t.TempDir(), "none.db"))
}

// The doctor does not wait for who has locked a table, but names them.
func TestTheDoctorIsNotHeldUpByALock(t *testing.T) {
	t.Parallel()
	c := newCLI(t, pgtest.URL(t))
	c.OK("migrate")
	c.OK("enqueue", "q", "1")
	holder, waiting := connectTo(t, c.DB), connectTo(t, c.DB)
	for _, text := range []string{"begin", "lock table dibs.job in access exclusive mode"} {
		if _, err := holder.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _, _ = waiting.Exec(t.Context(), "select from dibs.job") }() // ends with the test
	pid := holder.PgConn().PID()
	for {
		all, _ := c.doctor()
		if len(all) > 0 && all[0].Name == "lock" {
			if f := all[0]; f.Next != fmt.Sprintf("select pg_terminate_backend(%d);", pid) || !strings.Contains(f.Text, fmt.Sprintf("process %d of the server holds up", pid)) {
				t.Errorf("the doctor says %+v", f)
			}
			break
		}
	}
	if got := c.Run("", "doctor").Out; !strings.Contains(got, "Not looked at: jobs and upkeep: it took too long, or somebody has locked a") {
		t.Errorf("dibs doctor writes\n%s", got)
	}
}

func connectTo(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // the test's database is dropped afterwards
	return c
}
