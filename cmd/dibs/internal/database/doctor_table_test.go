package database

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-queue/dibs/cmd/dibs/internal/clitest"
	"github.com/dibs-queue/dibs/cmd/dibs/internal/cmdline"
)

// finding is what 'dibs doctor --table' says, a line each.
func (x *adopting) findings() string {
	x.T.Helper()
	all, code := x.doctor("--table", x.Mapping)
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %s: %s; next: %s\n", f.Severity, f.Name, f.Text, f.Next)
	}
	if wrong := strings.Contains(b.String(), severityWrong+" "); wrong != (code == cmdline.ExitFailure) {
		x.T.Errorf("exit code %d with\n%s", code, b.String())
	}
	return b.String()
}

func (x *adopting) says(words ...string) {
	x.T.Helper()
	x.HasInOrder(x.findings(), words...)
}

// Doctor looks at an adopted table, and at the database around it.
func TestDoctorOfAnAdoptedTable(t *testing.T) {
	onAdoptable(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByStatusBeside+"group: {column: customer}\nmax_attempts: 1\n")
		if got := x.findings(); strings.Contains(got, severityWrong) {
			t.Errorf("all is well, and the doctor says\n%s", got)
		}
		looked := "what holds back vacuum"
		if strings.HasPrefix(c.DB, "sqlite:") {
			looked = "the file"
		}
		said := c.OK("doctor", "--table", x.Mapping)
		c.HasInOrder(said, "Looked at: the table tickets", looked)
		if strings.Contains(said, "Not looked at: the server's settings") {
			t.Error(said)
		}
		if !strings.HasPrefix(c.DB, "sqlite:") {
			x.Exec("create table other (id int) with (autovacuum_enabled = off)")
			x.Exec("alter table tickets set (autovacuum_enabled = off)")
			if got := x.findings(); strings.Count(got, "autovacuum_off") != 1 || !strings.Contains(got, `alter table public."tickets" reset (autovacuum_enabled);`) {
				t.Errorf("autovacuum leaves the table alone, and the doctor says\n%s", got)
			}
			x.Exec("alter table tickets reset (autovacuum_enabled)")
		}

		x.Exec("update tickets set status = 'busy' where ref in ('A-1', '17')")
		x.Exec("delete from tickets where ref = 'd'")
		x.says("wrong stuck: 2 rows are in progress by the table's own columns, but dibs holds no lease on them", "put them back: update ",
			"wrong full: 1 rows are due, and none can be claimed: they wait for their groups", "next: dibs ls --table ", "--state running")

		x.Exec("update tickets set status = 'new'")
		c.Run("", x.WithTable("work", "--until-empty", "--", "false")...)
		x.says("note dead: 3 rows are dead in the side table", "next: dibs ls --table ", "--state dead")
	})
}

// A lease that has ended long ago, and rows that wait long, tell that no worker is there.
func TestDoctorOfATableWithoutWorkers(t *testing.T) {
	onAdoptable(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		x.Exec("create table paced (id integer primary key, made timestamp, state text not null default 'new', started timestamp, tries int not null default 0)")
		x.Mapping = c.Write("paced.yaml", "table: paced\nid: id\norder: made\nunfinished: state in ('new', 'busy')\navailable: state = 'new'\nlease: 10s\n"+
			"claim: {started_at: started, attempts: tries, set: {state: busy}}\ncompleted: {set: {state: done}}\nput_back: {set: {state: new}}\n")
		const old = "'2026-01-31 10:00:00'"
		x.Exec("insert into paced (id, made) values (1, " + old + ")")
		x.says("wrong no_worker: 1 row is due, the oldest for ", ", and none is in progress: nobody seems to work the table", "next: dibs work --table ", "-- PROGRAM")
		x.Exec("insert into paced (id, made, state, started) values (2, " + old + ", 'busy', " + old + ")")
		x.says("wrong late_claims: the leases of 1 row have ended, the first ", " ago, and nobody has taken them back: no worker of dibs seems to work the table")
	})
}

// Rows that the table refuses to have claimed are told by doctor, too.
func TestDoctorOfATableThatRefusesRows(t *testing.T) {
	onAdoptable(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		x.Exec("create table strict (id integer primary key, mark text, done integer, tries integer not null default 0, constraint few check (tries < 3))")
		x.Exec("insert into strict (id, tries) values (1, 2)")
		x.Mapping = c.Write("strict.yaml", "table: strict\nid: [id]\nunfinished: done is null\navailable: mark is null\nclaim: {token: mark, attempts: tries}\ncompleted: {set: {done: 1}}\n")
		x.says("wrong refused: ", "refuses a claim of 1 of the next 1 rows (1): ", "few", "next: dibs ls --table ", "--state waiting")
	})
}

// Rows that have ended dead by the mapping, and rows that wait although their attempts are used up, are said by doctor with
// the SQL that shows them or gives them their attempts back; ls, stats and show say why the latter wait.
func TestUsedUpAndDeadRowsOfATableAreExplained(t *testing.T) {
	onAdoptable(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken+"kind: customer\n")
		if got := x.findings(); strings.Contains(got, "dead") {
			t.Errorf("no row has ended, and the doctor says\n%s", got)
		}
		x.Exec("update tickets set tries = 3 where ref = 'A-1'; update tickets set status = 'failed', error = 'no such address' where ref in ('17', 'd')")
		said := x.findings()
		c.HasInOrder(said, "wrong stuck: 1 rows wait whose attempts are used up, so no claim takes them: the next sweep of a worker of dibs ends them as dead",
			"next: if they are to be tried again, give them their attempts back: update ")
		c.HasInOrder(said, "note ended_dead: 2 rows have ended as dead, by kind: ", `"bob" 1`, "next: select t.* from ")
		const used = "its attempts are used up (3 of 3), so no claim takes it: the next sweep of a worker of dibs ends it as dead"
		if got := c.OK(x.WithTable("show", "A-1")...); !strings.Contains(got, used) {
			t.Errorf("show says\n%s", got)
		}
		c.HasInOrder(c.OK(x.WithTable("show", "A-1", "--json")...), `"reason":"attempts"`, used)
		for _, verb := range []string{"ls", "stats"} {
			if r := c.Run("", x.WithTable(verb)...); !strings.Contains(r.Err, "1 rows wait whose attempts are used up") {
				t.Errorf("%s says\n%s%s", verb, r.Out, r.Err)
			}
		}
		for _, line := range strings.Split(said, "\n") { // what it proposes can be run
			if _, statement, is := strings.Cut(line, "attempts back: "); is {
				x.Exec(statement)
			}
			if _, statement, is := strings.Cut(line, "next: select"); is {
				x.Exec("select" + statement)
			}
		}
		if got := x.findings(); strings.Contains(got, "used up") || !strings.Contains(got, "ended_dead: 2 rows") {
			t.Errorf("after that the doctor says\n%s", got)
		}
	})
}

// Rows that have ended do not hide that nobody works the table.
func TestDeadRowsDoNotHideThatNobodyWorksATable(t *testing.T) {
	onAdoptable(t, func(c *cli) {
		x := adoptTickets(c, clitest.ByToken)
		x.Exec("create table mails (id integer primary key, made timestamp, state text not null default 'new', mark text, failed_at timestamp)")
		x.Mapping = c.Write("mails.yaml", "table: mails\nid: id\norder: made\nunfinished: state = 'new' and failed_at is null\navailable: mark is null\nclaim: {token: mark}\ncompleted: {delete: true}\ndead: {set: {failed_at: $now}}\n")
		x.Exec("insert into mails (id, made, failed_at) values (1, '2026-01-31 10:00:00', null), (2, '2026-01-31 10:00:00', '2026-01-31 10:00:00')")
		x.says("wrong no_worker: 1 row is due", "note ended_dead: 1 row has ended as dead; next: select t.* from ")
	})
}
