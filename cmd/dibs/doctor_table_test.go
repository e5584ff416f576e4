package main

import (
	"fmt"
	"strings"
	"testing"
)

// finding is what 'dibs doctor --table' says, a line each.
func (x *adopting) findings() string {
	x.t.Helper()
	all, code := x.doctor("--table", x.mapping)
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %s: %s; next: %s\n", f.Severity, f.Name, f.Text, f.Next)
	}
	if wrong := strings.Contains(b.String(), severityWrong+" "); wrong != (code == exitFailure) {
		x.t.Errorf("exit code %d with\n%s", code, b.String())
	}
	return b.String()
}

func (x *adopting) says(words ...string) {
	x.t.Helper()
	x.hasInOrder(x.findings(), words...)
}

// Doctor looks at an adopted table, and at the database around it.
func TestDoctorOfAnAdoptedTable(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byStatusBeside+"group: {column: customer}\nmax_attempts: 1\n")
		if got := x.findings(); strings.Contains(got, severityWrong) {
			t.Errorf("all is well, and the doctor says\n%s", got)
		}
		looked := "what holds back vacuum"
		if strings.HasPrefix(c.db, "sqlite:") {
			looked = "the file"
		}
		said := c.ok("doctor", "--table", x.mapping)
		c.hasInOrder(said, "Looked at: the table tickets", looked)
		if strings.Contains(said, "Not looked at: the server's settings") {
			t.Error(said)
		}
		if !strings.HasPrefix(c.db, "sqlite:") {
			x.exec("create table other (id int) with (autovacuum_enabled = off)")
			x.exec("alter table tickets set (autovacuum_enabled = off)")
			if got := x.findings(); strings.Count(got, "autovacuum_off") != 1 || !strings.Contains(got, `alter table public."tickets" reset (autovacuum_enabled);`) {
				t.Errorf("autovacuum leaves the table alone, and the doctor says\n%s", got)
			}
			x.exec("alter table tickets reset (autovacuum_enabled)")
		}

		x.exec("update tickets set status = 'busy' where ref in ('A-1', '17')")
		x.exec("delete from tickets where ref = 'd'")
		x.says("wrong stuck: 2 rows are in progress by the table's own columns, but dibs holds no lease on them", "put them back: update ",
			"wrong full: 1 rows are due, and none can be claimed: they wait for their groups", "next: dibs ls --table ", "--state running")

		x.exec("update tickets set status = 'new'")
		c.run("", x.withTable("work", "--until-empty", "--", "false")...)
		x.says("note dead: 3 rows are dead in the side table", "next: dibs ls --table ", "--state dead")
	})
}

// A lease that has ended long ago, and rows that wait long, tell that no worker is there.
func TestDoctorOfATableWithoutWorkers(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byToken)
		x.exec("create table paced (id integer primary key, made timestamp, state text not null default 'new', started timestamp, tries int not null default 0)")
		x.mapping = c.write("paced.yaml", "table: paced\nid: id\norder: made\nunfinished: state in ('new', 'busy')\navailable: state = 'new'\nlease: 10s\n"+
			"claim: {started_at: started, attempts: tries, set: {state: busy}}\ncompleted: {set: {state: done}}\nput_back: {set: {state: new}}\n")
		const old = "'2026-01-31 10:00:00'"
		x.exec("insert into paced (id, made) values (1, " + old + ")")
		x.says("wrong no_worker: 1 row is due, the oldest for ", ", and none is in progress: nobody seems to work the table", "next: dibs work --table ", "-- PROGRAM")
		x.exec("insert into paced (id, made, state, started) values (2, " + old + ", 'busy', " + old + ")")
		x.says("wrong late_claims: the leases of 1 row have ended, the first ", " ago, and nobody has taken them back: no worker of dibs seems to work the table")
	})
}

// Rows that the table refuses to have claimed are told by doctor, too.
func TestDoctorOfATableThatRefusesRows(t *testing.T) {
	onEach(t, func(c *cli) {
		x := adoptTickets(c, byToken)
		x.exec("create table strict (id integer primary key, mark text, done integer, tries integer not null default 0, constraint few check (tries < 3))")
		x.exec("insert into strict (id, tries) values (1, 2)")
		x.mapping = c.write("strict.yaml", "table: strict\nid: [id]\nunfinished: done is null\navailable: mark is null\nclaim: {token: mark, attempts: tries}\ncompleted: {set: {done: 1}}\n")
		x.says("wrong refused: ", "refuses a claim of 1 of the next 1 rows (1): ", "few", "next: dibs ls --table ", "--state waiting")
	})
}
